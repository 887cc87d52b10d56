"""Variables, branches and loops of a function under construction.

Takes bodies that emit, writes basic blocks around them. Invariant: variables stand in the entry of
the function, so that LLVM's passes make registers of them.

    loop(0, n, 1, body)    k = 0; loop: if k < n { body(k); k += 1; goto loop }
"""

from __future__ import annotations

from collections.abc import Callable

from fjit.backend.emitter import PTR, Emitter, Ty, Val

ROLLED = 1_000  # the number of the metadata of loops that stay as they are
ROLLED_TEXT = (
    f"!{ROLLED} = distinct !{{!{ROLLED}, !{ROLLED + 1}}}\n"
    f'!{ROLLED + 1} = !{{!"llvm.loop.unroll.disable"}}\n'
)


class Flow:
    """A function's stack slots and basic blocks; `entry` is the text of its entry."""

    def __init__(self, em: Emitter) -> None:
        self.em = em
        self.entry: list[str] = []
        self.blocks = 0

    def when(self, condition: Val, body: Callable[[], None]) -> None:
        """Run `body` where a condition holds."""
        em, inside, done = self.em, self._label("then"), self._label("end")
        em.cond_br(condition, inside, done)
        em.label(inside)
        body()
        em.br(done)
        em.label(done)

    def loop(
        self, start: Val, stop: Val, step: Val, body: Callable[[Val], None], *, unroll: bool = False
    ) -> None:
        """for (k = start; k < stop; k += step) body(k)."""
        counter = self._alloca(start.ty)
        self._set(counter, start)
        self._from(counter, stop, step, body, unroll=unroll)

    def _from(
        self,
        counter: Val,
        stop: Val,
        step: Val,
        body: Callable[[Val], None],
        *,
        unroll: bool = False,
    ) -> None:
        """The same from where a counter is, and it is left where the loop ends.

        Threads in flight take the place of unrolling, which would take their registers.
        """
        em = self.em
        now, head, done = self._while(counter, stop, step)
        body(now)
        self._set(counter, em.add(now, step))
        em.stmt(f"br label %{head}" + ("" if unroll else f", !llvm.loop !{ROLLED}"))
        em.label(done)

    def _alloca(self, ty: Ty, count: int = 1) -> Val:
        name = self.em.fresh("var")
        self.entry.append(f"  {name} = alloca {ty}, i64 {count}, align 64")
        return Val(PTR, name)

    def _set(self, place: Val, value: Val) -> None:
        self.em.stmt(f"store {value.ty} {value.ref}, ptr {place.ref}")

    def _read(self, place: Val, ty: Ty) -> Val:
        return self.em.inst(ty, f"load {ty}, ptr {place.ref}")

    def _label(self, text: str) -> str:
        self.blocks += 1
        return f"{text}{self.blocks}"

    def _while(self, counter: Val, stop: Val, step: Val | int) -> tuple[Val, str, str]:
        """Open `while counter < stop`; gives the counter's value, and labels to close it with."""
        em = self.em
        head, body, done = self._label("loop"), self._label("body"), self._label("exit")
        em.br(head)
        em.label(head)
        now = self._read(counter, stop.ty)
        em.cond_br(em.icmp("slt", now, stop), body, done)
        em.label(body)
        return now, head, done

    def _next(
        self,
        counter: Val,
        now: Val,
        step: int,
        labels: tuple[str, str],
        quits: Val | None = None,
        stop: Val | None = None,
    ) -> None:
        """Go on with the next step, or behind the last one if `quits`."""
        em = self.em
        following = em.add(now, em.const(now.ty, step))
        if quits is not None and stop is not None:
            following = em.select(quits, stop, following)
        self._set(counter, following)
        em.br(labels[0])
        em.label(labels[1])

    def _smaller(self, a: Val, b: Val) -> Val:
        return self.em.select(self.em.icmp("slt", a, b), a, b)

    def _larger(self, a: Val, b: Val) -> Val:
        return self.em.select(self.em.icmp("slt", a, b), b, a)
