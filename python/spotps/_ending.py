"""The end of a worker's process."""

import sys
import traceback

from spotps._client import Client

_ENDS_EARLY = (
    "the script ends before the job, since its loop was left by break, return, sys.exit or an "
    "exception that it handles; end a job by train.epochs, run.stop_at_loss or psctl stop"
)


def end_worker(client: Client, is_early: bool) -> None:
    """`is_early`: the job is not over. A notice is obeyed then: what is done is handed over. Else it
    is a failure of the script, as is an exception that nobody has handled."""
    raised = getattr(sys, "last_value", None)
    has_failed = is_early and (raised is not None or not client.is_leaving)
    why = _ENDS_EARLY
    if raised is not None:
        why = traceback.format_exception_only(type(raised), raised)[-1].strip()
    if has_failed:
        client.fail(why)
    elif is_early:
        client.leave("the script has ended on notice")
    client.close()
    if has_failed:  # the last line of the log, which psctl shows
        print(f"spotps: this worker has failed: {why}", file=sys.stderr, flush=True)
