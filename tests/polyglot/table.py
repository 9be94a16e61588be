"""What came out, for people and in the form of cargo's last line."""

import rich.box
import rich.console
import rich.table

# A log has no width to fit in.
_console = rich.console.Console(width=100, highlight=False, markup=False)


def show_cases(cases):
    shown = _table("case", "asserts")
    for one in cases:
        shown.add_row(one.name, one.about)
    _console.print(shown)


def tell(outcomes, every, seconds):
    """Shows all failures, then the table, then the last line. Returns the exit code.

    `every` is how many outcomes a run of everything has: fewer are a partial run.
    """
    failed = [one for one in outcomes if one.failure is not None]
    for one in sorted(failed, key=lambda one: (one.language, one.case)):
        print(f"\nFAILED {one.language} {one.case}: {one.failure}")

    shown = _table("language", "cases", "passed", "failed", "time")
    for column in shown.columns[1:]:
        column.justify = "right"
    for name in dict.fromkeys(one.language for one in outcomes):
        its = [one for one in outcomes if one.language == name]
        bad = sum(one.failure is not None for one in its)
        spent = sum(one.seconds for one in its)
        shown.add_row(name, str(len(its)), str(len(its) - bad), str(bad), f"{spent:.0f} s")
    print()
    _console.print(shown)
    left_out = every - len(outcomes)
    if left_out:
        print(f"a partial run: {left_out} of {every} were left out")
    for one in failed:
        print(f"failed: {one.language} {one.case}")
    good = not failed and outcomes
    print(
        f"test result: {'ok' if good else 'FAILED'}. {len(outcomes) - len(failed)} passed; "
        f"{len(failed)} failed; 0 ignored; 0 measured; {left_out} filtered out; "
        f"finished in {seconds:.2f}s",
        flush=True,
    )
    return 0 if good else 1


def _table(*columns):
    shown = rich.table.Table(box=rich.box.SIMPLE_HEAD)
    for name in columns:
        shown.add_column(name)
    return shown
