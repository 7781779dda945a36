"""The command `nu-ensembles`: its commands, and what every ending looks like from outside.

Exit codes: 0 fine; 1 the training diverged; 2 bad input or usage, said in one sentence; 130 stopped by Ctrl-C,
143 by SIGTERM.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from cyclopts import App, CycloptsError

from nu_ensembles._version import __version__
from nu_ensembles.cli.check import check
from nu_ensembles.cli.configuration import from_config_file
from nu_ensembles.cli.confirm import confirm
from nu_ensembles.cli.corrupt import corrupt
from nu_ensembles.cli.demo import demo
from nu_ensembles.cli.doctor import doctor
from nu_ensembles.cli.evaluate import evaluate
from nu_ensembles.cli.export import export
from nu_ensembles.cli.fit import fit
from nu_ensembles.cli.help_pages import WithoutStars
from nu_ensembles.cli.predict import predict
from nu_ensembles.cli.profile import profile
from nu_ensembles.cli.report import report
from nu_ensembles.cli.serve import serve
from nu_ensembles.cli.study import study
from nu_ensembles.cli.tune import tune
from nu_ensembles.errors import InputError, MissingExtraError, NonFiniteLossError
from nu_ensembles.lifecycle.interrupts import Terminated, termination_raises

PROGRAM = "nu-ensembles"

HELP = """Better calibrated deep ensembles from unlabelled data.

Every member of a nu-ensemble also fits its own random labels on unlabelled rows, weighted by beta. Beta and the length
of training are chosen on held-out rows; beta = 0 is a standard ensemble. To see it at work on real data, run the demo.

```
nu-ensembles demo
nu-ensembles check train.csv --unlabeled more.csv --target label
nu-ensembles fit train.csv --unlabeled more.csv --target label --out model
nu-ensembles tune train.csv --target label --space space.yaml
nu-ensembles evaluate model test.csv --target label
nu-ensembles report model test.csv
nu-ensembles predict model new.csv --out predictions.csv
nu-ensembles export model --format onnx
nu-ensembles study table1 --datasets digits --models mlp --seeds 2
```

Data files are .csv (.tsv, .csv.gz), .npz and .parquet files, or folders of images with a sub-folder for each class.
"""

app = App(
    name=PROGRAM,
    help=HELP,
    version=__version__,
    help_formatter=WithoutStars(),
    result_action="return_value",
    # Errors are printed and turned into exit codes by `main`.
    print_error=False,
    exit_on_error=False,
    suppress_keyboard_interrupt=False,
)
for number, command in enumerate(
    (demo, check, fit, tune, predict, evaluate, confirm, export, serve, corrupt, study, report, doctor, profile)
):
    app.command(command, sort_key=number, config=from_config_file if command is fit else None)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command line (that of this process by default) and returns the exit code."""
    _open_what_is_closed()
    # A terminal that cannot show a Greek letter gets a question mark, not a traceback.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    try:
        with _warnings_in_one_line(), termination_raises():
            words = sys.argv[1:] if argv is None else argv
            # A lone "-", standard input, would be taken for an option; as a path both are the same.
            app(["./-" if word == "-" else word for word in words])
            sys.stdout.flush()
    except (CycloptsError, InputError, MissingExtraError) as error:
        return _fail(error, 2)
    except NonFiniteLossError as error:
        return _fail(error, 1)
    except KeyboardInterrupt as error:
        print(f"{PROGRAM}: {str(error) or 'stopped.'}", file=sys.stderr)
        return 130
    except Terminated as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 143
    except BrokenPipeError:
        # The reader (`head`, say) had enough.
        _silence(sys.stdout)
        return 0
    except OSError as error:
        _silence(sys.stdout)
        return _fail(
            f"{error.filename or 'A file'} cannot be used ({error.strerror}); check it and its permissions.", 2
        )
    return 0


def _open_what_is_closed() -> None:
    """Gives a process that was started without standard streams empty ones: else the first files that it opens would
    take their numbers, and what any library prints would end up in them.

    Standard output then takes nothing, as a full one does, so that it is said where a result is lost.
    """
    for number, name, how in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if number < 2 else os.O_RDWR)
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, how, encoding="utf-8", closefd=False))  # noqa: SIM115 (as long as the process)


def _silence(stream: Any) -> None:
    """Sends what a stream still holds to nowhere: without this, Python would complain while closing it."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _fail(error: object, code: int) -> int:
    print(f"{PROGRAM}: error: {' '.join(str(error).split())}", file=sys.stderr)
    return code


@contextmanager
def _warnings_in_one_line() -> Iterator[None]:
    """Shows what the library warns of as a line on standard error; other packages' notes to developers stay silent."""

    said: set[str] = set()

    def show(message: Warning | str, *_: Any) -> None:
        # A file that is read twice, or predicted in parts, has the same to say each time.
        if str(message) in said:
            return
        said.add(str(message))
        print(f"{PROGRAM}: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        warnings.showwarning = show
        yield
