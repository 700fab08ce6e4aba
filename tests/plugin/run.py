"""`run.py test|ops|leak TORCH…`: the plugin's checks over the CPU, for each torch, as prepare.py made it."""

import argparse
import os
import subprocess
import sys

import prepare

HERE = prepare.HERE


def words(check, python, torch):
    if check == "test":
        return [python, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider", HERE]
    if check == "leak":
        return [python, HERE / "leak.py"]
    return [python, HERE / "ops.py", "-o", prepare.PLUGIN / f"ops-{torch}.jsonl"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="+", choices=["test", "ops", "leak", *prepare.RELEASES])
    what = parser.parse_args().what
    checks = [word for word in what if word not in prepare.RELEASES]
    failed = []
    for torch in [word for word in what if word in prepare.RELEASES] or prepare.RELEASES:
        python = prepare.ready(torch)
        for check in checks:
            prepare.say(f"{check}, torch {torch}")
            command = [str(word) for word in words(check, python, torch)]
            if subprocess.run(command, env=os.environ | {"FLAGOS_TARGET": "cpu"}).returncode:
                failed.append(f"{check} with torch {torch}")
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
