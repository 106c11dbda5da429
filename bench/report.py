"""bench/RESULTS.md and its plots, from the numbers of results.json alone."""
import json
import pathlib

import measure
import plot

HERE = pathlib.Path(__file__).resolve().parent


def ns(value):
    if abs(value) < 99.5:
        return f"{value:.1f} ns" if abs(value) < 9.95 else f"{value:.0f} ns"
    if abs(value) < 9_950:
        return f"{value:.0f} ns" if abs(value) < 995 else f"{value / 1e3:.2f} µs"
    return f"{value / 1e3:.0f} µs" if abs(value) < 995e3 else f"{value / 1e6:.2f} ms"


def ms(value):
    return f"{value:.3f} ms" if abs(value) < 10 else f"{value:.1f} ms"


def table(heads, rows):
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    return "\n".join(lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]) + "\n"


def named(rows, name):
    return next(row for row in rows if row["name"] == name)


def spread(row, key="added"):
    return f"{ns(row[key + '_low'])} … {ns(row[key + '_high'])}"


def pairs_alone(r):
    """The same figure wherever the run has it: one thread, one slot, few live. It depends on what a sibling core does meanwhile."""
    rows = [named(r["calls"], "hipMalloc+hipFree"), named(r["near"], "hipMalloc+hipFree"),
            named(r["slots"]["1"], "hipMalloc+hipFree")]
    rows += [row for row in r["live"] if row["what"] == "pair" and row["live"] <= 1_000]
    return sorted(row["added"] for row in rows), max(row["p99_added"] for row in rows)


def growth(rows):
    """What a replacement costs at 10⁷ live, against 10³ in the same process; and the latter."""
    lives = {row["live"]: row["added"] for row in rows if row["what"] == "replace"}
    return lives[10_000_000] / lives[1_000], lives[1_000]


def targets(r):
    """(what, measured, target, whether it is met, how many times the floor it is, the floor)"""
    f = r["floor"]
    pair, tail = pairs_alone(r)
    info = named(r["slots"]["16"], "hipMemGetInfo")
    refused, true = named(r["calls"], "refused hipMalloc"), r["start"]["true"]
    grown = sorted(growth(rows)[0] for rows in [r["live"], *r["live_again"]])
    few = growth(r["live"])[1]
    two = next(row for row in r["contention"]["processes"] if row["processes"] == 2)
    million = (r["memory"]["1000000"]["rss_kib"] - r["memory"]["1"]["rss_kib"]) * 1024 / 1e6
    atomic, call = f["atomic_add"], f["system_call"]
    nothing = "an audit library that does nothing"

    def row(what, value, target, shown, floor, floor_is, at_least=False):
        met = value >= target if at_least else value <= target
        return (what, shown(value), ("≥ " if at_least else "≤ ") + shown(target), "met" if met else "**not met**",
                f"{value / floor:.2g} ×" if floor else "—", f"{shown(floor)}: {floor_is}")

    def percent(value):
        return f"{value:.1f} %"

    def times(value):
        return f"{value:.2f} ×"

    def kib(value):
        return f"{value:.0f} KiB"

    return [
        row(f"hipMalloc + hipFree, median added, of {len(pair)} measurements ({ns(pair[0])} … {ns(pair[-1])})", pair[len(pair) // 2], 120, ns,
            5 * atomic, "five atomic additions (asked, granted, gone; what is remembered, twice)"),
        row("the same, p99 added", tail, 1000, ns, 5 * atomic, "the same"),
        row("hipMemGetInfo with 16 slots", info["added"], 80, ns, f["sixteen_lines"], "two words of 16 cache lines read"),
        row("a refused hipMalloc, one process (more: see Slots in use)", refused["added"], 2000, ns, call + 4 * atomic,
            "a reading of the clock by system call, four atomic additions"),
        row("an un-wrapped call, beyond the noise", max(0, r["plt"]["added"] - abs(r["plt"]["noise"])), 0.5, ns, 0,
            "the binding is the runtime's own"),
        row("start-up of `true`", true["added"], 0.05, ms, true["nothing_added"], nothing),
        row("the same, share of the start", 100 * true["added"] / true["without"], 2, percent,
            100 * true["nothing_added"] / true["without"], nothing),
        row("2 processes on 2 cores against one", two["scaling_with"], 1.8, times, two["scaling_without"],
            "the stand-in alone, in the same seconds", at_least=True),
        row(f"10⁷ live against 10³, cost of a replacement, of {len(grown)} processes ({times(grown[0])} … {times(grown[-1])})",
            grown[len(grown) // 2], 2, times, 1 + f["cache_miss"] / few,
            f"one miss ({ns(f['cache_miss'])} in 4 KiB pages) in a table of some {10_000_000 * 26 >> 20} MiB, beside the {ns(few)} of 10³"),
        row("resident memory without HIP", r["memory"]["none"]["rss_kib"], 128, kib, r["memory"]["nothing"]["rss_kib"], nothing),
        row("resident memory with HIP", r["memory"]["1"]["rss_kib"], 400, kib, r["memory"]["nothing"]["rss_kib"] + 12,
            f"{nothing}, and one page each of rows, status and table"),
        row("bytes a live allocation (10⁶)", million, 32, lambda v: f"{v:.1f} B", 16, "address, size and device"),
    ]


def call_rows(rows, floor=None):
    return [(row["name"], ns(row["without"]), f"**{ns(row['added'])}**", spread(row), ns(row["p99_added"]),
             f"{ns(row['noise'])} ({spread(row, 'noise')})") for row in rows]


CALL_HEADS = ("call", "without", "added, median", "10 % … 90 % of batches", "added, p99", "noise: without − without")


def crowd_rows(rows, key):
    return [(row[key], ns(row["all_without"]), f"**{ns(row['added'])}**",
             f"{ns(row['added_low'])} … {ns(row['added_high'])}", f"{row['pairs_per_us']:.2f} M/s",
             f"{row['scaling_with']:.2f} ×", f"{row['scaling_without']:.2f} ×") for row in rows]


CROWD_HEADS = ("pair, per core: without", "added", "10 % … 90 %", "pairs/s with", "against one, with", "without")


def describe(m, after=None):
    load = f"load {m['load']:.1f}" + (f" before and {after:.1f} after" if after is not None else "")
    return (f"{m['processor']}, {m['cores']} cores, Linux {m['kernel']}, {m['libc']}; commit {m['commit']}; {m['date']}; {load}. ")


def plots(r, other):
    what = {"pair": "hipMalloc + hipFree again and again", "replace": "one of the live is replaced"}
    lives = [row["live"] for row in r["live"] if row["what"] == "pair"]
    series = {words: [next((row["added"] for row in r["live"] if row["live"] == n and row["what"] == key), None) for n in lives]
              for key, words in what.items()}
    names = [f"10{str(len(str(n)) - 1).translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}" if n else "0" for n in lives]
    (HERE / "live.svg").write_text(plot.line_plot("Cost against live allocations", "live allocations", "ns added", names, series))
    source = other or r["contention"] | {"machine": r["machine"]}
    counts = [row["processes"] for row in source["processes"]]
    series = {"with the library": [row["pairs_per_us"] for row in source["processes"]],
              "without": [1e3 * row["processes"] / row["all_without"] / max(1, row["processes"] / row["cores"]) for row in source["processes"]]}
    (HERE / "processes.svg").write_text(plot.line_plot(f"Throughput against processes, {source['machine']['cores']} cores",
                                                       "processes of one pod", "million pairs/s", counts, series))


def real_rows(real):
    return [(version, row["name"], ns(row["without"]), f"**{ns(row['added'])}**",
             f"**{100 * row['added'] / row['without']:.1f} %**", spread(row), spread(row, "noise"))
            for version, rows in real.items() for row in rows]


def summary(r):
    pair, info = pairs_alone(r)[0], named(r["calls"], "hipMemGetInfo")
    share = [100 * named(rows, "hipMalloc+hipFree")["added"] / named(rows, "hipMalloc+hipFree")["without"] for rows in r["real"].values()]
    return (f"hipMalloc + hipFree take {ns(pair[0])} to {ns(pair[-1])} more ({min(share):.0f} to {max(share):.0f} % of the pair on ROCm's own "
            f"runtimes), hipMemGetInfo {ns(info['added'])}, any other call nothing; a program starts "
            f"{r['start']['true']['added'] * 1000:.0f} µs later and is {r['memory']['none']['rss_kib']:.0f} KiB larger, "
            f"{r['memory']['1']['rss_kib']:.0f} KiB if it uses HIP.")


def write(r):
    path = HERE / "results-16core.json"
    other = json.loads(path.read_text()) if path.exists() else None
    explained = (HERE / "explained.md").read_text() if (HERE / "explained.md").exists() else ""
    plots(r, other)
    sections = [
        "# What the library costs\n\nWritten by `make -f Makefile.hip bench`; do not edit. " + describe(r["machine"], r.get("load_after"))
        + f"The run took {r['seconds']:.0f} s.\n\n" + summary(r) + "\n",
        """Each figure is the time **added**: the same process makes the same calls with the library and without it, in turns of
some 15 µs (bench/flip.h says how). Shown is the median of the paired differences; p99 is that of single calls, with − without. The
noise is what two turns *without* differ by.\n""",
        "## Targets\n\n" + table(("", "measured", "target", "", "of the floor", "the floor"), targets(r)),
        f"The floor on this machine: an atomic addition {ns(r['floor']['atomic_add'])}, a system call {ns(r['floor']['system_call'])}, "
        f"a page fault {ns(r['floor']['page_fault'])}, a cache and TLB miss {ns(r['floor']['cache_miss'])}, "
        f"a cache line from another core {ns(r['floor']['line_transfer'])}.\n",
        explained,
        "## Calls, on the stand-in device\n\n" + table(CALL_HEADS, call_rows(r["calls"]))
        + "\nAn un-wrapped call through the PLT of a program of its own, which binds lazily: "
        + f"{ns(r['plt']['without'])} without, {ns(r['plt']['added'])} added, noise {ns(r['plt']['noise'])}.\n",
        "Near the limit (one more allocation fits):\n\n" + table(CALL_HEADS, call_rows(r["near"])),
        "## On the real runtimes\n\nUnmodified ROCm over the emulated driver (softgpu/kfd), whose driver calls cost less than a "
        "real one's; suballocated by ROCr, most calls make none.\n\n"
        + table(("ROCm", "call", "without", "added", "share", "10 % … 90 %", "noise, 10 % … 90 %"), real_rows(r["real"]))
        + "\nNot measured, because the runtime itself does not stand it: "
        + "; ".join(f"{name} on {v} ({why})" for v, row in measure.UNFIT.items() for name, why in row.items()) + ".\n",
        "## Slots in use\n\n" + table(("slots",) + CALL_HEADS, [(n,) + row for n, rows in r["slots"].items() for row in call_rows(rows)]),
        "## Live allocations\n\n*pair*: the same block again and again. *replace*: a random one of the live is freed and another "
        "allocated, as in a program that runs for long.\n\n"
        + table(CALL_HEADS, [(f"{row['live']:,} {row['what']}",) + cells[1:] for row, cells in zip(r["live"], call_rows(r["live"]))])
        + "\n![Cost against live allocations](live.svg)\n",
        "## Threads and processes at once\n\nAll of them do the same pairs at the same time. *Against one*: throughput of all "
        "against that of one of them alone, in turns in the same run.\n\n"
        + table(("threads",) + CROWD_HEADS, crowd_rows(r["contention"]["threads"], "threads")) + "\n"
        + table(("processes",) + CROWD_HEADS, crowd_rows(r["contention"]["processes"], "processes")),
    ]
    if other:
        sections.append("On a machine with more cores: " + describe(other["machine"]) + "\n\n"
                        + table(("threads",) + CROWD_HEADS, crowd_rows(other["threads"], "threads")) + "\n"
                        + table(("processes",) + CROWD_HEADS, crowd_rows(other["processes"], "processes")))
    start = [(name, ms(s["without"]), f"**{ms(s['added'])}**", f"{100 * s['added'] / s['without']:.1f} %", ms(s["nothing_added"]),
              ms(s["noise"])) for name, s in r["start"].items()]
    memory = [({"none": "no HIP", "nothing": "an audit library that does nothing, no HIP"}.get(n, f"HIP, {n} live"),
               f"**{m['rss_kib']:.0f} KiB**", f"{m['pss_kib']:.0f} KiB", f"{m['private_dirty_kib']:.0f} KiB") for n, m in r["memory"].items()]
    b = r["bytes"]
    sections += [
        "![Throughput against processes](processes.svg)\n",
        "## Start-up\n\n" + table(("program", "without", "added", "share", "an audit library that does nothing adds", "noise"), start),
        "## Memory\n\n" + table(("process", "resident, added", "proportional", "private and dirty"), memory)
        + f"\nThe library: {b['stripped']:,} bytes ({b['file']:,} with debugging information); text {b['text']:,}, data {b['data']:,}, "
        f"bss {b['bss']:,}.\n"]
    (HERE / "RESULTS.md").write_text("\n".join(s for s in sections if s))
