"""Runs llama.cpp's own HTTP server on 127.0.0.1, in the environment that `real_llm` makes. Imports nothing of ours.

    python llamacpp.py MODEL.gguf TOKENS_OF_CONTEXT THREADS

Prints the server's address when it is ready, and ends when its standard input does.
"""

import sys

import xllamacpp


def main(model: str, context: str, threads: str) -> None:
    """Serves until nobody holds the other end of standard input any more."""
    wanted = xllamacpp.CommonParams()
    wanted.model.path = model
    wanted.hostnames = ["127.0.0.1"]
    wanted.port = 0
    wanted.n_ctx = int(context)
    wanted.n_parallel = 1
    wanted.offline = True
    wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = int(threads)
    wanted.sampling.penalty_repeat = 1.1  # a model of this size repeats itself for ever without
    server = xllamacpp.Server(wanted)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:4])
