# The image of every Precis process: API, worker, migration and one-off commands. Built by docker-compose.yml.
#
# Without a fleet, `docker run -p 127.0.0.1:8377:8377 -v precis:/data precis:local` runs all of it in one container.

FROM python:3.13-slim-trixie AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
COPY requirements.runtime.lock requirements.build.lock ./
RUN python -m venv /opt/precis \
    && /opt/precis/bin/pip install --require-hashes -r requirements.runtime.lock \
    && pip install --require-hashes -r requirements.build.lock
COPY LICENSE README.md pyproject.toml ./
COPY filter_stub filter_stub
COPY migrations migrations
COPY workers workers
COPY service service
RUN pip wheel --no-deps --no-build-isolation --wheel-dir /dist . \
    && /opt/precis/bin/pip install --no-deps /dist/*.whl

FROM python:3.13-slim-trixie
LABEL org.opencontainers.image.title="Precis" \
      org.opencontainers.image.description="Persistent, asynchronous conversation compression for Open WebUI" \
      org.opencontainers.image.licenses="MIT AND Apache-2.0"
RUN groupadd --gid 10001 precis \
    && useradd --uid 10001 --gid precis --home-dir /data --no-create-home --shell /usr/sbin/nologin precis \
    && install --directory --owner precis --group precis --mode 0700 /data
COPY --from=build /opt/precis /opt/precis
ENV PATH=/opt/precis/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PRECIS_HOST=0.0.0.0 \
    PRECIS_DATA_DIR=/data
WORKDIR /data
USER 10001:10001
EXPOSE 8377
HEALTHCHECK --interval=30s --timeout=10s --start-period=1m --start-interval=2s --retries=3 CMD ["precis", "healthcheck"]
ENTRYPOINT ["precis"]
CMD ["serve"]
