"""shown_commands.py BIN: looks at every psctl command that a document shows.

BIN is the folder with the programs of a build; the current folder is the root of the repository.

- Each command and each of its flags is one that `psctl help` knows: in code blocks, in
  `inline code` and in synopses with [brackets].
- A command that reads files and starts nothing (see RUN) is run, with the repository's files, and
  ends with 0, unless it has a placeholder such as JOB.json.
- Each command is on the page of commands, docs/commands.md.
- A block that begins with "name": is a part of a job file, and psctl takes it.
- What a block shows below "$ psctl ..." is what such a command prints. "..." stands for lines that
  are left out.

Prints what is wrong, "file:line: ...", and exits with 1 then.
"""

import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

RUN = {"check", "model", "plan", "predict", "simulate", "forecast", "catalog show", "catalog check",
       "claims"}
NESTED = {"catalog", "checkpoint"}
PLACEHOLDER = re.compile(r"\.\.\.|^[\[(|]|^[A-Z]+[0-9]*(\.[a-z]+)?$|^<|=[A-Z]+$")
PROMPT = re.compile(r"^((first|second|third)?\$ )?")
CONTINUES_MAX = 10


class Checker:
    def __init__(self, programs):
        self.psctl = os.path.join(programs, "psctl")
        self.flags = {}
        self.results = {}  # of commands that were run and write no file
        self.findings = []
        self.checked = 0
        self.ran = 0
        self.compared = 0
        self.fields = 0
        self.folder = tempfile.TemporaryDirectory()
        for name in ("configs", "tests"):
            os.symlink(os.path.abspath(name), os.path.join(self.folder.name, name))

    def help(self, command):
        """The flags and commands below a command; None when there is no such command."""
        if command not in self.flags:
            done = subprocess.run(
                [self.psctl, "help", *command.split()], capture_output=True, text=True, check=False)
            text = done.stdout
            names = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", text)) | {"--help", "-h"}
            below = set(re.findall(r"(?m)^  ([a-z]+)  ", text))
            self.flags[command] = (names, below) if done.returncode == 0 else None
        return self.flags[command]

    def command_of(self, words):
        """"catalog show" of ["psctl", "catalog", "show", ...]; "" of a flag alone."""
        named = [w for w in words[1:3] if re.fullmatch(r"[a-z]+", w)]
        if not named or named[0] != words[1]:
            return ""
        is_nested = named[0] in NESTED or " ".join(named) == "model export"
        return " ".join(named) if is_nested else named[0]

    def check(self, place, words):
        """Whether the words are a command and flags of it. Placeholders may stand for commands."""
        if len(words) > 1 and PLACEHOLDER.search(words[1]):
            return
        command = self.command_of(words)
        known = self.help(command)
        self.checked += 1
        if known is None:
            self.findings.append(f"{place}: there is no command: psctl {command}")
            return
        for word in words[1:]:
            flag = re.match(r"^\[?(--?[a-z][a-z-]*)", word)
            if flag and flag.group(1) not in known[0]:
                self.findings.append(f"{place}: psctl {command} has no flag {flag.group(1)}")

    def run(self, place, words, shown):
        if self.command_of(words) not in RUN or any(PLACEHOLDER.search(w) for w in words[1:]):
            return
        paths = [w for w in words[1:] if w.endswith((".json", ".csv")) and "/" in w]
        outputs = {words[i + 1] for i, w in enumerate(words[:-1]) if w in ("-o", "--plot")}
        files = [w for w in words[1:] if w.endswith((".json", ".csv")) and w not in outputs]
        wants_profile = self.command_of(words) in ("plan", "predict") and "--profile" not in words
        if files != paths or wants_profile:
            return  # with the reader's own files
        done = self.results.get(tuple(words))
        if done is None:
            try:
                done = subprocess.run(
                    [self.psctl, *words[1:]], capture_output=True, text=True, check=False,
                    timeout=200, cwd=self.folder.name, stdin=subprocess.DEVNULL)
            except subprocess.TimeoutExpired:
                self.findings.append(f"{place}: {shlex.join(words)}: no end within 200 s")
                return
            if not outputs:
                self.results[tuple(words)] = done
        self.ran += 1
        if done.returncode != 0:
            self.findings.append(f"{place}: {shlex.join(words)}: {done.stderr.strip()}")
        elif shown:
            self.compare(place, words, shown, (done.stdout + done.stderr).splitlines())

    def compare(self, place, words, shown, printed):
        """Shown lines are in what was printed, in this order; between two of them only where "..."
        says so."""
        self.compared += 1
        at, may_skip = 0, False
        for line in shown:
            if line.strip() == "...":
                may_skip = True
                continue
            rest = [p.strip() for p in printed[at:]]
            if line.strip() not in rest or not (may_skip or rest[0] == line.strip()):
                self.findings.append(
                    f"{place}: {shlex.join(words[:2])} does not print this here: {line.strip()}")
                return
            at += rest.index(line.strip()) + 1
            may_skip = False
        more = [p for p in printed[at:] if p.strip()]
        if more and not may_skip:
            self.findings.append(
                f"{place}: {shlex.join(words[:2])} prints more: {more[0]}; say so by ...")


def blocks(lines):
    """Lists of (number, text) of code blocks: fenced, or indented by four below a blank line."""
    block, fenced, was_blank = [], False, True
    for number, line in enumerate([*lines, "end"], 1):
        if line.startswith("```"):
            fenced = not fenced
            if block:
                yield block
            block = []
            continue
        is_code = fenced or (line.startswith("    ") and (was_blank or block))
        if is_code:
            block.append((number, line if fenced else line[4:]))
        elif block and line.strip():
            yield block
            block = []
        elif block:
            block.append((number, ""))
        was_blank = not line.strip()


def words_of(text):
    """One shell command's words; None while a quote is open."""
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return None


def commands_of(text):
    """The psctl commands of a line of the shell."""
    words = words_of(text) or []
    command, separators = [], ("|", ";", "&&", "&")
    for word in [*words, ";"]:
        ends = word in separators or word.endswith(";")
        if ends and word not in separators:
            command.append(word[:-1])
        elif not ends:
            command.append(word)
        if ends:
            while command and (command[0] in ("sudo", "exec") or "=" in command[0]):
                command = command[1:]
            if command and command[0] == "psctl":
                yield command
            command = []


def check_blocks(checker, path, lines):
    for block in blocks(lines):
        at = 0
        while at < len(block):
            number, text = block[at]
            at += 1
            session = PROMPT.match(text).group(0)
            text = text[len(session):]
            if "psctl " not in text or text.startswith(("psctl:", "#")):
                continue
            while at < len(block) and (text.endswith("\\") or words_of(text) is None):
                if block[at][0] - number > CONTINUES_MAX:
                    break
                text = text.removesuffix("\\") + block[at][1].strip()
                at += 1
            shown = []
            if session:
                while at < len(block) and not PROMPT.match(block[at][1]).group(0):
                    shown.append(block[at][1])
                    at += 1
                while shown and not shown[-1].strip():
                    shown.pop()
            is_synopsis = "[" in text and "]" in text and "'" not in text
            commands = [text.split()] if is_synopsis else list(commands_of(text))
            for words in commands:
                if words[0] != "psctl":
                    continue
                checker.check(f"{path}:{number}", words)
                if not is_synopsis and len(commands) == 1 and "|" not in text:
                    checker.run(f"{path}:{number}", words, shown)


JOB = """{"name": "shown", "model": {"name": "mlp"}, "workers": [{}],
  "data": {"format": "csv", "directory": "."}}"""


def check_fields(checker, path, lines):
    """Blocks with parts of a job file: psctl prints the job that has them."""
    for block in blocks(lines):
        text = "\n".join(line for _, line in block).strip().rstrip(",")
        if not re.match(r'"[a-z_]+": ', text):
            continue
        place = f"{path}:{block[0][0]}"
        try:
            fields = json.loads("{" + text + "}")
        except ValueError as error:
            checker.findings.append(f"{place}: {error}")
            continue
        if len(fields) > 0 and not all(isinstance(v, (dict, list)) for v in fields.values()):
            continue  # fields of an inner table
        with open(os.path.join(checker.folder.name, "job.json"), "w") as file:
            file.write(JOB)
        settings = [f"{name}={json.dumps(value)}" for name, value in fields.items()]
        done = subprocess.run(
            [checker.psctl, "train", "job.json", "--print-config", "--set", *settings],
            capture_output=True, text=True, check=False, cwd=checker.folder.name)
        checker.fields += 1
        if done.returncode != 0:
            checker.findings.append(f"{place}: {done.stderr.strip()}")


def check_inline(checker, path, text):
    for found in re.finditer(r"(?<!`)`(psctl [^`]+)`(?!`)", text):
        place = f"{path}:{text.count(chr(10), 0, found.start()) + 1}"
        words = (found.group(1).replace("\n", " ").replace("\\|", "|")).split()
        checker.check(place, [w.rstrip(",;") for w in words])


def check_reference(checker, page):
    """Every command is in the first column of a table of the page."""
    cells = " ".join(re.findall(r"(?m)^\|([^|]*)\|", page.read_text()))
    named = set(re.findall(r"[a-z]+", " ".join(re.findall(r"`([^`]*)`", cells))))
    commands = checker.help("")[1]
    if len(commands) < 20:
        checker.findings.append(f"{page}: psctl help lists hardly any command: {sorted(commands)}")
    for command in sorted(commands):
        below = checker.help(command)[1]
        for name in (command, *sorted(below)):
            if name not in named:
                checker.findings.append(f"{page}: psctl {command} is missing: {name}")


def main():
    checker = Checker(os.path.abspath(sys.argv[1]))
    documents = [
        p for p in sorted(pathlib.Path(".").rglob("*.md")) if p.parts[0] not in ("build", "runs")]
    for path in documents:
        text = path.read_text()
        check_blocks(checker, path, text.splitlines())
        check_fields(checker, path, text.splitlines())
        check_inline(checker, path, text)
    check_reference(checker, pathlib.Path("docs/commands.md"))
    print("\n".join(checker.findings))
    print(
        f"{len(documents)} documents: {checker.checked} commands known, {checker.ran} run, the"
        f" output of {checker.compared} compared, {checker.fields} parts of job files taken")
    if checker.checked < 100 or checker.ran < 5 or checker.compared < 3 or checker.fields < 5:
        print("that is too few: the documents are not read as they should be")
        return 1
    return 1 if checker.findings else 0


if __name__ == "__main__":
    sys.exit(main())
