"""Libraries broken on purpose, each in one place, to see that the war can be lost."""
import re
import shutil
import subprocess

RELEASE_AT_FREE = r"(known = gate_take\(copy, FREES_##kind, \(key\), &base, &taken\);)"

# name: (file, pattern, replacement, how the war is lost)
MUTANTS = {
    "releases before it frees": (
        "hip/wrappers.c", RELEASE_AT_FREE,
        r"\1 if (known) { gate_release(taken); sys_call6(SYS_sched_yield, 0, 0, 0, 0, 0, 0); known = false; }",
        r"had \d+ bytes of card|more than their limits"),
    "forgets to charge hipMallocPitch": (
        "hip/hip_api.def", r"(\(ptr, pitch, width, height\), hip_current_device\(copy\),) size_pitched\(width, height, 1\)",
        r"\1 0", "booked"),
    "keeps the charge of a refused call": (
        "hip/gate.c", r"void gate_withdraw\(const struct charge \*charge\)\n\{", r"\g<0>\n\treturn;", "booked|LOCK_TIMEOUT|hang"),
    "counts an interior pointer as nothing": (
        "hip/gate.c", r"return result == hipSuccess && base != key \? base : NULL;", "return NULL;", "booked"),
    "lets a child write into its parent's row": (
        "multiprocess/hip_multiprocess_memory_limit.c",
        r"sys_madvise\(&l->state, sizeof l->state, MADV_WIPEONFORK\) == 0", "true", "booked|ended with status|its limit is"),
    "never reaps the dead": (
        "multiprocess/rows.h", r"static inline bool rows_have_dead\([^)]*\)\n\{", r"\g<0>\n\treturn false;",
        "asked for|slots of|books say"),
    "forgets the originals at exit": (
        "hip/wrappers.c", r"(if \(hip_copies\[k\]\.map == map\)\n\t\t\t)hip_copies\[k\]\.map = NULL;",
        r"\1hip_copies[k] = (struct hip_copy){ 0 };", None),  # a matter of chance in the war; see test_traps.py
}

FLAGS = ("-std=gnu11 -D_GNU_SOURCE -O1 -ffreestanding -fPIC -fvisibility=hidden -fno-stack-protector -fcf-protection=none "
         "-ftls-model=initial-exec -fno-plt -fno-tree-loop-distribute-patterns -mgeneral-regs-only -w -shared -nostdlib "
         "-nostartfiles -Wl,-z,now -Wl,--hash-style=both").split()


def build(root, folder, name):
    """The library with this fault."""
    path, pattern, replacement, _ = MUTANTS[name]
    shutil.copytree(root / "src", folder / "src")
    broken = folder / "src" / path
    text, count = re.subn(pattern, replacement, broken.read_text())
    assert count == 1, f"{path} has {count} places that match {pattern}"
    broken.write_text(text)
    sources = [p for p in sorted((folder / "src").glob("*/*.c")) if p.parent.name != "guard"]
    library = folder / "libamvgpu.so"
    subprocess.run(["gcc", *FLAGS, f"-Wl,--version-script={folder / 'src/libamvgpu.map'}", "-o", library, *sources], check=True)
    return library
