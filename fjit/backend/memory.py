"""Loads and stores of the writer of LLVM IR: plain, masked, gathered and scattered.

Takes pointers, offsets in bytes and masks, gives values. Invariant: alignment is 1 unless a caller
promises more, and masked operations take scalars as vectors of one lane.

    e.load(F32.with_lanes(4), p)   ->   %v1 = load <4 x float>, ptr %p, align 1
"""

from fjit.backend.values import Ty, Val, vector_text


class Memory:
    """The memory operations of an emitter, which says how instructions are written."""

    declares: dict[str, str]

    def inst(self, ty: Ty, text: str) -> Val:
        """Append an instruction with a result."""
        raise NotImplementedError

    def stmt(self, text: str) -> None:
        """Append an instruction without a result."""
        raise NotImplementedError

    def gep(self, ptr: Val, byte_offset: Val) -> Val:
        """Return `ptr` moved by bytes; a vector of offsets gives a vector of pointers."""
        ty = ptr.ty.with_lanes(max(ptr.ty.lanes, byte_offset.ty.lanes))
        offset = f"{byte_offset.ty} {byte_offset.ref}"
        return self.inst(ty, f"getelementptr i8, {ptr.ty} {ptr.ref}, {offset}")

    def load(self, ty: Ty, ptr: Val, align: int = 1, meta: str = "") -> Val:
        """Load a scalar or contiguous lanes; `meta` is appended, such as `!nontemporal !0`."""
        tail = f", {meta}" if meta else ""
        return self.inst(ty, f"load {ty}, {ptr.ty} {ptr.ref}, align {align}{tail}")

    def store(self, val: Val, ptr: Val, align: int = 1, meta: str = "") -> None:
        """Store a scalar or contiguous lanes."""
        tail = f", {meta}" if meta else ""
        self.stmt(f"store {val.ty} {val.ref}, {ptr.ty} {ptr.ref}, align {align}{tail}")

    def masked_load(self, ty: Ty, ptr: Val, mask: Val, passthru: Val, align: int = 1) -> Val:
        """Load the lanes whose mask is set and take the others from `passthru`."""
        many = vector_text(ty)
        name = f"llvm.masked.load.v{ty.lanes}{ty.element.suffix}.p0"
        self._declare(name, f"{many} @{name}(ptr, {vector_text(mask.ty)}, {many})")
        tail = f"{self._as_vector(mask)}, {self._as_vector(passthru)}"
        return self._vector_result(ty, f"call {many} @{name}(ptr align {align} {ptr.ref}, {tail})")

    def masked_store(self, val: Val, ptr: Val, mask: Val, align: int = 1) -> None:
        """Store the lanes whose mask is set."""
        name = f"llvm.masked.store.v{val.ty.lanes}{val.ty.element.suffix}.p0"
        self._declare(name, f"void @{name}({vector_text(val.ty)}, ptr, {vector_text(mask.ty)})")
        value, where = self._as_vector(val), self._as_vector(mask)
        self.stmt(f"call void @{name}({value}, ptr align {align} {ptr.ref}, {where})")

    def gather(self, ty: Ty, ptrs: Val, mask: Val, passthru: Val, align: int = 1) -> Val:
        """Load one element per pointer where the mask is set, else take `passthru`."""
        many, where = vector_text(ty), vector_text(ptrs.ty)
        name = f"llvm.masked.gather.v{ty.lanes}{ty.element.suffix}.v{ty.lanes}p0"
        self._declare(name, f"{many} @{name}({where}, {vector_text(mask.ty)}, {many})")
        pointers = self._as_vector(ptrs, f" align {align}")
        tail = f"{self._as_vector(mask)}, {self._as_vector(passthru)}"
        return self._vector_result(ty, f"call {many} @{name}({pointers}, {tail})")

    def scatter(self, val: Val, ptrs: Val, mask: Val, align: int = 1) -> None:
        """Store one element per pointer where the mask is set; later lanes win."""
        types = ", ".join(vector_text(v.ty) for v in (val, ptrs, mask))
        name = f"llvm.masked.scatter.v{val.ty.lanes}{val.ty.element.suffix}.v{val.ty.lanes}p0"
        self._declare(name, f"void @{name}({types})")
        pointers = self._as_vector(ptrs, f" align {align}")
        self.stmt(f"call void @{name}({self._as_vector(val)}, {pointers}, {self._as_vector(mask)})")

    def _declare(self, name: str, signature: str) -> None:
        self.declares.setdefault(name, f"declare {signature}")

    def _as_vector(self, val: Val, attrs: str = "") -> str:
        """Operand text as a vector: masked intrinsics know no scalars."""
        if val.ty.lanes > 1:
            return f"{val.ty}{attrs} {val.ref}"
        many = vector_text(val.ty)
        one = self.inst(val.ty, f"insertelement {many} poison, {val.ty} {val.ref}, i64 0")
        return f"{many}{attrs} {one.ref}"

    def _vector_result(self, ty: Ty, text: str) -> Val:
        result = self.inst(ty, text)
        if ty.lanes > 1:
            return result
        return self.inst(ty, f"extractelement {vector_text(ty)} {result.ref}, i64 0")
