"""Kernels of the known loads as PTX, which the driver compiles: no CUDA toolkit is needed."""

from __future__ import annotations

ACCUMULATORS = 8
"""Independent products in flight a warp, so that the tensor pipe never waits for itself."""

_HEAD = """.version 7.0
.target sm_{arch}
.address_size 64
"""

SPIN = """
.visible .entry spin(.param .u64 nanoseconds)
{
    .reg .u64 %t<4>;
    .reg .pred %p;
    ld.param.u64 %t0, [nanoseconds];
    mov.u64 %t1, %globaltimer;
again:
    mov.u64 %t2, %globaltimer;
    sub.u64 %t3, %t2, %t1;
    setp.lt.u64 %p, %t3, %t0;
    @%p bra again;
    ret;
}
"""
"""Waits: one block keeps one SM of the card busy with nothing."""

CHASE = """
.visible .entry chase(.param .u64 start, .param .u64 steps, .param .u64 out)
{
    .reg .u64 %a, %n, %o;
    .reg .pred %p;
    ld.param.u64 %a, [start];
    ld.param.u64 %n, [steps];
    ld.param.u64 %o, [out];
again:
    ld.global.u64 %a, [%a];
    sub.u64 %n, %n, 1;
    setp.ne.u64 %p, %n, 0;
    @%p bra again;
    st.global.u64 [%o], %a;
    ret;
}
"""
"""Follows pointers through memory in one thread: each load waits for the one before."""

COPY = """
.visible .entry copy(.param .u64 dst, .param .u64 src, .param .u64 words)
{
    .reg .u32 %r<4>;
    .reg .u32 %v<4>;
    .reg .u64 %i, %step, %n, %d, %s, %at, %x;
    .reg .pred %p;
    ld.param.u64 %d, [dst];
    ld.param.u64 %s, [src];
    ld.param.u64 %n, [words];
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mov.u32 %r2, %tid.x;
    mad.lo.u32 %r3, %r0, %r1, %r2;
    cvt.u64.u32 %i, %r3;
    mov.u32 %r0, %nctaid.x;
    mul.wide.u32 %step, %r0, %r1;
again:
    setp.ge.u64 %p, %i, %n;
    @%p bra done;
    shl.b64 %at, %i, 4;
    add.u64 %x, %s, %at;
    ld.global.v4.u32 {%v0, %v1, %v2, %v3}, [%x];
    add.u64 %x, %d, %at;
    st.global.v4.u32 [%x], {%v0, %v1, %v2, %v3};
    add.u64 %i, %i, %step;
    bra again;
done:
    ret;
}
"""
"""Copies words of 16 bytes: as fast as memory goes."""


def basic() -> bytes:
    """A module with spin, chase and copy, for Volta and newer; ends with a zero byte as the driver wants it."""
    return (_HEAD.format(arch=70) + SPIN + CHASE + COPY).encode() + b"\0"


def products() -> bytes:
    """A module with `products(rounds, out)`: dense bf16 products on the tensor cores, for Ampere and newer."""
    sums = [f"%c{at}" for at in range(4 * ACCUMULATORS)]
    body = "\n".join(
        "    mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        f"{{{four}}}, {{%a0, %a1, %a2, %a3}}, {{%b0, %b1}}, {{{four}}};"
        for four in (", ".join(sums[at : at + 4]) for at in range(0, len(sums), 4))
    )
    clear = "\n".join(f"    mov.f32 {name}, 0f00000000;" for name in sums)
    add = "\n".join(f"    add.f32 %c0, %c0, {name};" for name in sums[1:])
    operands = "\n".join(f"    mov.b32 %{name}, 0x3F803F80;" for name in ("a0", "a1", "a2", "a3", "b0", "b1"))
    text = f"""
.visible .entry products(.param .u64 rounds, .param .u64 out)
{{
    .reg .b32 %a<4>;
    .reg .b32 %b<2>;
    .reg .f32 %c<{len(sums)}>;
    .reg .u64 %n, %o;
    .reg .pred %p;
    ld.param.u64 %n, [rounds];
    ld.param.u64 %o, [out];
{operands}
{clear}
again:
{body}
    sub.u64 %n, %n, 1;
    setp.ne.u64 %p, %n, 0;
    @%p bra again;
{add}
    st.global.f32 [%o], %c0;
    ret;
}}
"""
    return (_HEAD.format(arch=80) + text).encode() + b"\0"
