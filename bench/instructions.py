"""Instructions a call executes inside libamvgpu.so alone: the same on every processor and however busy the machine is.

Counted by valgrind (callgrind) for two numbers of calls; the difference has neither start nor end of the program in it.
"""
import functools
import json
import pathlib
import subprocess

import measure

BASELINE = measure.HERE / "instructions.json"
OPERATIONS = ("hipMalloc+hipFree", "hipMallocAsync+hipFreeAsync", "hipMemGetInfo")


def by_object(profile, name):
    """Sum of the costs of the functions of the object, without what they call elsewhere."""
    total, is_ours, is_inclusive = 0, False, False
    for line in profile.splitlines():
        if line.startswith("ob="):
            is_ours = line.endswith(name)
        elif line.startswith("calls="):
            is_inclusive = True
        elif line[:1].isdigit():
            words = line.split()  # line and cost; a cost of 0 is left out
            if is_ours and not is_inclusive and len(words) > 1:
                total += int(words[1])
            is_inclusive = False
    return total


def run(library, operation, count, slots=0):
    with measure.pod(library=library) as p, p.slots(slots):
        out = p.folder / "profile"
        command = ["valgrind", "--tool=callgrind", "--compress-strings=no", "--compress-pos=no",
                   f"--callgrind-out-file={out}", measure.BUILD / "cost", "once", str(count), operation]
        done = subprocess.run([str(c) for c in command], env=p.environment(LD_BIND_NOW=1), text=True, capture_output=True)
        if done.returncode:
            raise RuntimeError(done.stdout + done.stderr)
        return by_object(out.read_text(), pathlib.Path(library).resolve().name)


@functools.lru_cache(maxsize=None)
def per_call(library, operation, few=1_000, many=3_000, slots=0):
    return (run(library, operation, many, slots) - run(library, operation, few, slots)) / (many - few)


def record(library=measure.LIBRARY):
    counts = {operation: round(per_call(library, operation), 1) for operation in OPERATIONS}
    compiler = subprocess.run(["gcc", "-dumpfullversion"], text=True, capture_output=True, check=True).stdout.strip()
    BASELINE.write_text(json.dumps({"compiler": f"gcc {compiler}", "instructions": counts}, indent=1) + "\n")
    return counts


if __name__ == "__main__":
    measure.build()
    print(record())
