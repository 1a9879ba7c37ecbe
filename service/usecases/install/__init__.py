"""Use case: put Precis into an Open WebUI, keep it as it should be, take it out again.

That is the filter, the events function, the action and the tool, their valves and a key.

In: a signed-in Open WebUI, a wish, a way to the database, where keys are made. Out: what was done,
line by line, and the models. A run that finds everything as wished changes nothing. Data flows one
way: what is `installed`, its `valves` and keys, the `changes`, who writes, and the `models`.
"""

from collections.abc import Sequence
from contextlib import AsyncExitStack

from service.clients.openwebui import OpenWebUI
from service.errors import OpenWebUIError
from service.planning import policy
from service.settings import Settings
from service.usecases.install import changes as changing
from service.usecases.install.installed import (
    EVENTS,
    FILES,
    FILTER,
    Reached,
    Say,
    Wish,
    look,
    our_tool,
    reach,
    wanted_of,
)
from service.usecases.install.models import ModelRow, check_writer, describe_writer, list_rows
from service.usecases.install.valves import Databases, InstallerKeys, is_private, valves_of

__all__ = ["Say", "Wish", "install", "is_private", "uninstall"]

_NAME = "install-filter {}"  # of keys, by the address of their Open WebUI
_TOOLS_OFF = (
    "tools are switched off in Open WebUI, so no model can look up what a summary covers: start it"
    " without ENABLE_TOOLS=false"
)


async def install(
    webui: OpenWebUI, wish: Wish, databases: Databases, say: Say, settings: Settings
) -> list[ModelRow]:
    """Makes it as wished.

    Returns:
        The models, as Precis has them by these settings.

    Raises:
        OpenWebUIError: something is in the way; or all is done, but the filter does not reach the
            service.
    """
    await check_writer(webui, wish)
    wanted = wanted_of(webui, wish)
    installed = await look(webui, wanted)
    if wish.recall and webui.tools_off:
        say(_TOOLS_OFF)
    async with AsyncExitStack() as stack:
        of_installer = InstallerKeys(_NAME.format(webui.url), databases, stack, say)
        valves = await valves_of(installed, wish, wanted, of_installer)
        changes = changing.changes_of(webui, installed, wish, wanted, valves)
        await _carry_out(changes, say)
        if not changes:
            say("nothing to change")
        url = valves[FILTER]["service_url"]
        reached = await reach(webui, url) if changes else installed.reached
        if reached.problem:
            raise OpenWebUIError(
                f"the filter is installed, but does not work: {reached.problem}."
                f" From here, Precis is at {wish.first_url}"
            )
        # Only now that the new key has worked: until then the old one may be all there is.
        await of_installer.revoke_others(valves[FILTER]["api_key"], valves[EVENTS]["api_key"])
        reached = reached._replace(summariser=await _choose_writer(of_installer, reached, wish))
    say(f"the filter in Open WebUI reaches Precis {reached.version} as tenant {reached.tenant!r}.")
    say(describe_writer(reached))
    for one in reached.models:
        if policy.is_crowded(one["window"], one["overhead"]):
            say(f"{one['model']}: {policy.crowding(one['window'], one['overhead'])}")
    return list_rows(await webui.models(), reached, settings)


async def _choose_writer(of_installer: InstallerKeys, reached: Reached, wish: Wish) -> str | None:
    """Stores who writes summaries, unless it is so; as `tables.tenants` has it."""
    before = reached.summariser
    wanted = wish.summariser or ("chat" if before is None else before)
    chosen = "" if wanted == "none" else wanted
    if chosen != before:
        await of_installer.choose_summariser(reached.tenant, chosen)
    return chosen


async def uninstall(webui: OpenWebUI, databases: Databases, say: Say) -> None:
    """Takes the functions, the tool and their keys away.

    What is stored of chats stays; `precis chats delete` deletes it.
    """
    functions = await webui.functions()
    changes: list[changing.Fix] = []
    for name in FILES:
        changes += changing.without_function(webui, functions, name)
    changes += changing.without_tool(webui, await our_tool(webui))
    await _carry_out(changes, say)
    async with AsyncExitStack() as stack:
        of_installer = InstallerKeys(_NAME.format(webui.url), databases, stack, say)
        for tenant in await of_installer.revoke_others():
            await of_installer.choose_summariser(tenant, None)
    if not changes:
        say("no function of Precis is in this Open WebUI")


async def _carry_out(changes: Sequence[changing.Fix], say: Say) -> None:
    for change in changes:
        # Before it is made, so that an error in it stands below its name.
        say(change.what)
        await change.make()
