"""The console command `workbench`: opens JupyterLab on the lessons, runs PyTorch programs on the engine, and writes a teacher's course."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from urllib.parse import quote

from .course.shipped import Refusal, files, lessons_folder, place

CLEAR = "\x1b[H\x1b[2J"  # cursor home, and an empty screen
FOLDER = "gradient-workbench-lessons"
QUIET = Path(__file__).resolve().parent / "jupyter" / "quiet"  # no news prompt, and no network request for news


def main(argv: list[str] | None = None) -> int:
    """Run one command and return the exit status of the process."""
    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["run"] and argv[1:2] not in ([], ["-h"], ["--help"]):  # all that follows belongs to the program
        from .running import run

        given, rest = {}, argv[1:]
        while rest and (option := rest[0].partition("="))[0] in ("--flight", "--torch"):
            given[option[0]], rest = option[2], rest[1:]
        if not rest:
            parser().error(f"run: {' '.join(given)} is followed by the program: workbench run --flight train.py")
        return run(rest, (given["--flight"] or "run.flight") if "--flight" in given else "", "--torch" not in given)
    if argv[:1] == ["cluster"] and argv[1:2] not in ([], ["-h"], ["--help"]):
        return cluster(argv[1:])
    split = argv.index("--") if "--" in argv else len(argv)
    options = parser().parse_args(argv[:split])
    try:
        if options.command == "lab":
            return lab(options, argv[split + 1 :])
        return COMMANDS[options.command](options)
    except Refusal as refusal:
        print(f"workbench: {refusal}", file=sys.stderr)
        return 1


def parser() -> argparse.ArgumentParser:
    """The command-line parser."""
    top = argparse.ArgumentParser(prog="workbench", description="See, step and understand the gradients of a notebook.")
    top.add_argument("--version", action="version", version=f"gradient-workbench {metadata.version('gradient-workbench')}")
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "lab",
        help="copy the lessons into a folder and open JupyterLab on the first one",
        epilog="Arguments after -- are passed to JupyterLab: workbench lab --no-browser -- --ServerApp.base_url=/user/me/",
    )
    one.add_argument("dir", nargs="?", type=Path, metavar="DIR", help=f"the folder (default: this one if it is empty, else ./{FOLDER})")
    one.add_argument("--no-browser", action="store_true", help="start the server only, and print its address")
    one.add_argument("--port", type=port, help="the port to listen on (default: the first free one from 8888)")
    one.add_argument("--ip", help="the address to listen on (default: localhost)")
    two = commands.add_parser(
        "run",
        usage="workbench run [--flight[=FILE]] [--torch] SCRIPT.py [ARGUMENTS]\n"
        "       workbench run [--flight[=FILE]] [--torch] -m MODULE [ARGUMENTS]",
        help="run a program written for PyTorch on the engine: `import torch` gives the engine there",
        epilog="Everything behind SCRIPT.py or MODULE is the program's own.",
    )
    two.add_argument(
        "--flight", nargs="?", metavar="FILE", help="record the last steps of its training to FILE (run.flight), see wb.flight"
    )
    two.add_argument("--torch", action="store_true", help="run it on PyTorch itself, as to record a training there")
    two.add_argument("program", metavar="SCRIPT.py", help="the file, or -m and the name of a module, to run as `python` would run it")
    seven = commands.add_parser(
        "cluster",
        usage="workbench cluster RANKS SCRIPT.py [ARGUMENTS]\n       workbench cluster RANKS -m MODULE [ARGUMENTS]",
        help="run a program written for PyTorch in several processes, on this machine or on several",
        epilog="If one process fails, all are ended. Everything behind SCRIPT.py or MODULE is the program's own. torchrun's options: "
        "python -m engine.distributed.run --help",
    )
    seven.add_argument(
        "ranks", metavar="RANKS", help="how many processes; or machines and their processes, as in a:4,b:4; or the path of a hostfile"
    )
    seven.add_argument("program", metavar="SCRIPT.py", help="the file, or -m and the name of a module")
    three = commands.add_parser("course", help="write what a teacher needs for a class: lessons, the instructor's edition, a syllabus")
    three.add_argument("dir", type=Path, metavar="DIR", help="a new or an empty folder; in an earlier course, changed files are kept")
    three.add_argument("--lessons", type=numbers, metavar="1,2,5", help="only the lessons with these numbers (default: all)")
    three.add_argument("--nbgrader", action="store_true", help="a course directory of nbgrader: each lesson is an assignment")
    four = commands.add_parser(
        "class",
        help="show how a class answers the questions of a lesson, live",
        epilog="Answers are read from FOLDER/NAME/lesson-2-answers.json. With WORKBENCH_CLASS=FOLDER in the students' environment, each "
        "answer is copied there. Ctrl-C ends it.",
    )
    four.add_argument("folder", type=Path, metavar="FOLDER", help="the folder that has a folder for each student")
    four.add_argument("--lesson", metavar="N", help="the lesson's number, or the name of the file (default: the one written last)")
    four.add_argument("--every", type=seconds, default=2.0, metavar="SECONDS", help="how often to look (default: 2)")
    four.add_argument("--once", action="store_true", help="print the table once")
    six = commands.add_parser("lessons", help="copy the lessons into a folder; files that are there already are kept")
    six.add_argument("dir", type=Path, metavar="DIR", help="the folder")
    five = commands.add_parser("slides", help="run a lesson and make slides of its views and figures")
    five.add_argument("lesson", metavar="LESSON", help="a notebook, or the number of a lesson")
    five.add_argument("out", type=Path, metavar="OUT", help="a file that ends in .html, where views can be stepped through, or in .pdf")
    return top


def cluster(arguments: list[str]) -> int:
    """Run `workbench cluster`."""
    from engine.distributed.run import main

    ranks, program = arguments[0], arguments[1:]
    if program in ([], ["-m"]) or ranks.startswith("-"):
        parser().parse_args(["cluster"])  # shows the usage, and exits
    if ranks.isdecimal() and int(ranks) < 1:
        parser().error(f"cluster: RANKS is at least 1, or machines such as a:4,b:4, not {ranks!r}")
    where = [f"--nproc_per_node={ranks}" if ranks.isdecimal() else f"--hosts={ranks}"]
    return main([*where, *program], "workbench")


def seconds(text: str) -> float:
    """Parse a time of at least a tenth of a second."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.1 <= found < 1e6:
        raise argparse.ArgumentTypeError(f"a time is a number of seconds, at least 0.1, not {text!r}")
    return found


def numbers(text: str) -> list[int]:
    """Parse numbers of lessons, such as "1,2,5" or "1-4,7"."""
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = (one.strip() for one in part.partition("-"))
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise argparse.ArgumentTypeError(f"lessons are numbers such as 1,2,5 or 1-4, not {text!r}")
        found += range(int(first), int(last or first) + 1)
    return found


def port(text: str) -> int:
    """Parse a TCP port number."""
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535, not {text!r}")
    return int(text)


def lab(options: argparse.Namespace, further: list[str]) -> int:
    """Run `workbench lab`; returns when JupyterLab has been shut down."""
    source = lessons_folder()
    first = first_lesson(source)
    folder = (options.dir or default_folder(first)).expanduser().resolve()
    copy_lessons(source, folder)
    arguments = [f"--ServerApp.root_dir={folder}", f"--LabApp.default_url=/lab/tree/{quote(first)}"]
    if options.no_browser:
        arguments.append("--no-browser")
    if options.port is not None:
        arguments += [f"--ServerApp.port={options.port}", "--ServerApp.port_retries=0"]
    if options.ip is not None:
        arguments.append(f"--ServerApp.ip={options.ip}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # in a container root is often the only user there is
        print("workbench: running as root: what a notebook does, root does")
        arguments.append("--allow-root")
    serve(arguments + further)
    return 0


def serve(arguments: list[str]) -> None:
    """Run JupyterLab in this process, so that signals reach it, until it is shut down."""
    os.environ["JUPYTER_CONFIG_PATH"] = os.pathsep.join(filter(None, [str(QUIET), os.environ.get("JUPYTER_CONFIG_PATH")]))
    from jupyterlab.labapp import LabApp

    LabApp.launch_instance(arguments)


def default_folder(first: str) -> Path:
    """The current folder if it is empty or has the lessons, else a subfolder for them."""
    here = Path.cwd()
    return here if (here / first).exists() or not any(here.iterdir()) else here / FOLDER


def first_lesson(source: Path) -> str:
    """The name of the notebook to open."""
    notebooks = sorted(path.name for path in source.glob("*.ipynb"))
    if not notebooks:
        raise Refusal(f"there is no lesson in {source}; install gradient-workbench again")
    return notebooks[0]


def copy_lessons(source: Path, folder: Path) -> None:
    """Copy every lesson file that `folder` does not have yet, without the instructor's notes. Existing files are kept."""
    shipped = [file for file in files(source) if file.parent.name != "instructor"]
    place({file.relative_to(source).as_posix(): file.read_bytes() for file in shipped}, folder)


def lessons(options: argparse.Namespace) -> int:
    """Run `workbench lessons`."""
    copy_lessons(lessons_folder(), options.dir.expanduser().resolve())
    return 0


def course(options: argparse.Namespace) -> int:
    """Run `workbench course`."""
    from .course.folder import course, graded_course

    folder = options.dir.expanduser().resolve()
    (graded_course if options.nbgrader else course)(lessons_folder(), folder, options.lessons)
    print(f"workbench: the course is in {folder}; begin with its README.md")
    return 0


def watch_class(options: argparse.Namespace) -> int:
    """Run `workbench class` until Ctrl-C; once if its output goes to a file or another program."""
    from .teach.roster import Class, in_color

    students = Class(options.folder.expanduser(), options.lesson)
    live = sys.stdout.isatty() and not options.once
    try:
        while True:
            size = shutil.get_terminal_size()
            try:
                lines = students.look().lines(size.columns, size.lines if live else None)
            except (ValueError, FileNotFoundError) as error:
                if not live:
                    raise Refusal(f"{str(error)[0].lower()}{str(error)[1:]}") from error
                lines = [f"{error}", "", "Waiting for the first answer ..."]
            if not live:
                print(*lines, sep="\n")
                return 0
            print(CLEAR + "\n".join(map(in_color, lines)), end="", flush=True)
            time.sleep(options.every)
    except KeyboardInterrupt:
        print()
        return 0


def slides(options: argparse.Namespace) -> int:
    """Run `workbench slides`."""
    from .course.slides import write_slides

    out = options.out.expanduser()
    lesson = lesson_file(options.lesson)

    def running(cell: int, cells: int) -> None:
        if sys.stdout.isatty():
            print(f"\rworkbench: {lesson.name}, cell {cell} of {cells - 1}", end="", flush=True)

    count = write_slides(lesson, out, running)
    print(f"{chr(13) if sys.stdout.isatty() else ''}workbench: {count} slides in {out}, {out.stat().st_size / 1e6:.1f} MB")
    return 0


def lesson_file(text: str) -> Path:
    """The notebook at a path, or the shipped lesson with a number."""
    if not text.isdecimal():
        return Path(text).expanduser()
    found = [path for path in sorted(lessons_folder().glob("*.ipynb")) if path.name.startswith(f"{int(text):02d}_")]
    if not found:
        raise Refusal(f"there is no lesson {text}")
    return found[0]


COMMANDS: dict[str, Callable[[argparse.Namespace], int]] = {"lessons": lessons, "course": course, "class": watch_class, "slides": slides}


if __name__ == "__main__":
    sys.exit(main())
