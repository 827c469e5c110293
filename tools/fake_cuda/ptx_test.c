// SPDX-License-Identifier: Apache-2.0
/* The emulator by itself: what instructions give that no kernel could be held against (rounding,
 * fragments of matrices, lanes that part), and that each thing it forbids is found. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "ptx.h"
#include "ptx_half.h"

/* ---- running a few lines --------------------------------------------------------------------- */

enum { WORDS = 256, AT = 0x10000 };

static uint32_t words[WORDS];
static uint8_t known[4 * WORDS];
static const PtxRegion region = {AT, sizeof words, (uint8_t *)words, known};

static const PtxRegion *find(void *owner, uint64_t address) {
    (void)owner;
    return address - region.address < region.size ? &region : NULL;
}

/* A kernel of these statements: %rd1 is where the thread's word lies, %r1 the thread, %p1 what the
 * first 16 have; s is 512 bytes of shared memory. */
static void write_kernel(char *text, size_t size, const char *body) {
    snprintf(text, size,
             ".version 9.0\n.target sm_90\n.address_size 64\n"
             ".visible .entry k(.param .align 8 .b8 k_param_0[8])\n.maxntid 128, 1, 1\n{\n"
             ".reg .pred %%p<9>;\n.reg .b16 %%h<9>;\n.reg .b32 %%r<40>;\n.reg .f32 %%f<20>;\n"
             ".reg .b64 %%rd<9>;\n.reg .f64 %%fd<9>;\n.shared .align 16 .b8 s[512];\n"
             "mov.u32 %%r1, %%tid.x;\nld.param.u64 %%rd2, [k_param_0];\n"
             "mul.wide.u32 %%rd3, %%r1, 4;\nadd.s64 %%rd1, %%rd2, %%rd3;\n"
             "setp.lt.u32 %%p1, %%r1, 16;\nmov.u32 %%r2, s;\nshl.b32 %%r3, %%r1, 2;\n"
             "add.s32 %%r4, %%r2, %%r3;\n%s\nret;\n}\n",
             body);
}

/* Runs it in such a grid. NULL, or why it could not. */
static const char *run_launch(const char *body, PtxLaunch launch) {
    static char text[1 << 14], why[PTX_WHY];
    const uint64_t at = AT;
    write_kernel(text, sizeof text, body);
    PtxModule *module = ptx_open(text, why);
    assert_non_null(module);
    const PtxKernel *kernel = ptx_find(module, "k", why);
    launch.params = &at;
    launch.find = find;
    const bool ok = kernel && ptx_run(kernel, &launch, why);
    ptx_close(module);
    return ok ? NULL : why;
}

/* In one block. */
static PtxLaunch one_of(uint32_t threads) {
    return (PtxLaunch){.grid = {1, 1, 1}, .block = {threads, 1, 1}};
}
static const char *run(const char *body, uint32_t threads) {
    return run_launch(body, one_of(threads));
}

static void clear(void) {
    memset(words, 0, sizeof words);
    memset(known, PTX_SENT, sizeof known);
}
static void launch_passes(const char *body, PtxLaunch launch) {
    const char *why = run_launch(body, launch);
    if (why) fail_msg("%s\n%s", why, body);
}
static void passes(const char *body, uint32_t threads) {
    launch_passes(body, one_of(threads));
}
/* The message holds the words. */
static void launch_is_refused(const char *body, PtxLaunch launch, const char *with) {
    const char *why = run_launch(body, launch);
    if (!why || !strstr(why, with)) fail_msg("%s, not %s\n%s", why ? why : "passes", with, body);
}
static void is_refused(const char *body, uint32_t threads, const char *with) {
    clear();
    launch_is_refused(body, one_of(threads), with);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void test_halves(void **state) {
    (void)state;
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const float half = ptx_from_half((uint16_t)bits), bfloat = ptx_from_bfloat((uint16_t)bits);
        if (half == half) assert_int_equal(ptx_to_half(half), bits);
        if (bfloat == bfloat) assert_int_equal(ptx_to_bfloat(bfloat), bits);
    }
    for (uint64_t i = 0; i < UINT64_C(1) << 32; i += 9973) {
        const uint32_t bits = (uint32_t)i;
        float x;
        memcpy(&x, &bits, sizeof x);
        assert_int_equal(ptx_half_of(x), ptx_to_half(x));
        assert_int_equal(ptx_bfloat_of(x), ptx_to_bfloat(x));
    }
    assert_int_equal(ptx_to_half(65519.99L), 0x7bff);
    assert_int_equal(ptx_to_half(65520.0L), 0x7c00);
    assert_int_equal(ptx_to_half(0x1p-25L), 0);
    assert_int_equal(ptx_to_half(0x1.8p-24L), 2);
    assert_int_equal(ptx_to_bfloat(1 + 0x1p-8L), 0x3f80);
    assert_int_equal(ptx_to_bfloat(1 + 0x1p-8L + 0x1p-40L), 0x3f81);
}

static void gives(const char *body, uint32_t want) {
    clear();
    passes(body, 32);
    if (words[0] != want) fail_msg("%08x, not %08x\n%s", words[0], want, body);
}
#define STORE "st.global.u32 [%rd1], %r9;"
static void test_values(void **state) {
    (void)state;
    gives("mov.u32 %r8, -7; div.s32 %r9, %r8, 2;" STORE, (uint32_t)-3);
    gives("mov.u32 %r8, -7; shr.s32 %r9, %r8, 40;" STORE, UINT32_MAX);
    gives("mov.u32 %r8, 1; shl.b32 %r9, %r8, 32;" STORE, 0);
    gives("mov.u16 %h1, 0x8018; shr.u16 %h2, %h1, 3; cvt.u32.u16 %r9, %h2;" STORE, 0x1003);
    gives("mov.u16 %h1, 0x8018; mul.wide.u16 %r9, %h1, 128;" STORE, 0x400c00);
    gives("mov.u16 %h1, 0x8018; shr.u16 %h2, %h1, 16; cvt.u32.u16 %r9, %h2;" STORE, 0);
    gives("mov.u32 %r8, -1; mov.u32 %r7, 0; bfi.b32 %r9, %r8, %r7, 8, 4;" STORE, 0xf00);
    gives("mov.u64 %rd4, 0x5fffffffe; cvt.s64.s32 %rd5, %rd4; shr.u64 %rd5, %rd5, 32;"
          "cvt.u32.u64 %r9, %rd5;" STORE,
          UINT32_MAX);
    gives("mov.f32 %f1, 0f7FC00000; cvt.rzi.s32.f32 %r9, %f1;" STORE, 0);
    gives("mov.f32 %f1, 0f4F800000; cvt.rzi.s32.f32 %r9, %f1;" STORE, INT32_MAX);
    gives("mov.f32 %f1, 0f40200000; cvt.rni.s32.f32 %r9, %f1;" STORE, 2);
    gives("mov.f64 %fd1, 0d4004000000000000; cvt.rni.f64.f64 %fd1, %fd1; cvt.rzi.s32.f64 %r9, "
          "%fd1;" STORE,
          2);
    gives("mov.f32 %f1, 0f3F800001; fma.rn.f32 %f2, %f1, %f1, 0fBF800002; mov.b32 %r9, %f2;" STORE,
          0x28800000);
    gives("mov.f32 %f1, 0f3F800000; fma.rm.f32 %f2, %f1, %f1, 0fB2000000; mov.b32 %r9, %f2;" STORE,
          0x3f7fffff);
    gives("mov.f32 %f1, 0f7FC00000; min.f32 %f2, %f1, 0f40000000; mov.b32 %r9, %f2;" STORE,
          0x40000000);
    gives("mov.f32 %f1, 0f00000001; ex2.approx.ftz.f32 %f2, %f1; mov.b32 %r9, %f2;" STORE,
          0x3f800000);
    gives("mov.f32 %f1, 0fBF800000; mov.f32 %f2, 0f40000000; copysign.f32 %f3, %f1, %f2;"
          "mov.b32 %r9, %f3;" STORE,
          0xc0000000);
    gives("mov.u32 %r8, 7; cvt.rn.f16.s32 %h1, %r8; cvt.f32.f16 %f1, %h1; mov.b32 %r9, %f1;" STORE,
          0x40e00000);
    gives("mov.b16 %h1, 0xFFFF; cvt.rn.f32.u16 %f1, %h1; mov.b32 %r9, %f1;" STORE, 0x477fff00);
    gives("mov.b64 %rd4, 0x100000002; mov.b64 {%r8, %r9}, %rd4;" STORE, 1);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

static void test_lanes(void **state) {
    (void)state;
    clear();
    passes("mov.u32 %r9, 1; @%p1 bra A; mov.u32 %r9, 2; bra B; A: add.s32 %r9, %r9, %r1;"
           "B: shfl.sync.bfly.b32 %r10|%p2, %r9, 16, 31, -1; st.global.u32 [%rd1], %r10;",
           32);
    for (uint32_t l = 0; l < 32; l++) assert_int_equal(words[l], l < 16 ? 2 : 1 + l - 16);
    clear(); /* as often as the lane's number */
    passes("mov.u32 %r9, 0; L: setp.ge.u32 %p2, %r9, %r1; @%p2 bra E; add.s32 %r9, %r9, 1; bra L;"
           "E: st.global.u32 [%rd1], %r9;",
           64);
    for (uint32_t l = 0; l < 64; l++) assert_int_equal(words[l], l);
    clear(); /* one after the other */
    passes("mov.u32 %r9, 3; atom.global.add.u32 %r8, [%rd2], %r9; membar.gl; ld.global.cg.u32 %r9, "
           "[%rd2];"
           "st.global.u32 [%rd1], %r8;",
           32);
    for (uint32_t l = 1; l < 32; l++) assert_int_equal(words[l], words[0] + 3 * l);
    clear(); /* the other way round, by way of shared memory */
    passes("st.shared.u32 [%r4], %r1; bar.sync 0; xor.b32 %r5, %r1, 63; shl.b32 %r5, %r5, 2;"
           "add.s32 %r5, %r5, %r2; ld.shared.u32 %r9, [%r5]; st.global.u32 [%rd1], %r9;",
           64);
    for (uint32_t l = 0; l < 64; l++) assert_int_equal(words[l], 63 - l);
    clear(); /* the same by generic addresses, of shared and of global memory */
    passes("cvt.u64.u32 %rd4, %r4; cvta.shared.u64 %rd4, %rd4; st.u32 [%rd4], %r1; bar.sync 0;"
           "xor.b32 %r5, %r3, 252; cvt.u64.u32 %rd4, %r5; cvta.shared.u64 %rd4, %rd4;"
           "ld.u32 %r9, [%rd4]; st.u32 [%rd1], %r9; ld.u32 %r9, [%rd1]; st.global.u32 [%rd1], %r9;",
           64);
    for (uint32_t l = 0; l < 64; l++) assert_int_equal(words[l], 63 - l);
    clear(); /* warps by pairs, in a barrier of theirs each */
    passes("shr.u32 %r5, %r1, 6; add.s32 %r5, %r5, 1; st.shared.u32 [%r4], %r1; bar.sync %r5, 64;"
           "xor.b32 %r6, %r1, 63; shl.b32 %r6, %r6, 2; add.s32 %r6, %r6, %r2;"
           "ld.shared.u32 %r9, [%r6]; bar.sync %r5, 64; st.shared.u32 [%r4], %r9;"
           "st.global.u32 [%rd1], %r9;",
           128);
    for (uint32_t l = 0; l < 128; l++) assert_int_equal(words[l], l ^ 63);
    clear(); /* what a warp hands on within itself */
    passes("st.shared.u32 [%r4], %r1; bar.warp.sync -1; xor.b32 %r5, %r3, 4; add.s32 %r5, %r5, %r2;"
           "ld.shared.u32 %r9, [%r5]; bar.warp.sync -1; st.shared.u32 [%r4], %r9;"
           "st.global.u32 [%rd1], %r9;",
           32);
    for (uint32_t l = 0; l < 32; l++) assert_int_equal(words[l], l ^ 1);
}

/* Rows and columns of fragments by mma's definition: left is (r + 1) at (r, r), right k 8 + c. */
static void test_matrices(void **state) {
    (void)state;
    clear();
    passes(/* left: a0 (row l / 4, columns l % 4 * 2 …), a1 8 rows below, a2 8 columns on, a3 both */
           "shr.u32 %r5, %r1, 2; and.b32 %r6, %r1, 3; shl.b32 %r6, %r6, 1; add.s32 %r7, %r6, 1;"
           "add.s32 %r8, %r5, 1; cvt.rn.f16.s32 %h1, %r8; add.s32 %r8, %r5, 9;"
           "cvt.rn.f16.s32 %h2, %r8; mov.b16 %h3, 0; setp.eq.u32 %p2, %r5, %r6;"
           "setp.eq.u32 %p3, %r5, %r7; selp.b16 %h4, %h1, %h3, %p2; selp.b16 %h5, %h1, %h3, %p3;"
           "mov.b32 %r10, {%h4, %h5}; selp.b16 %h4, %h2, %h3, %p2; selp.b16 %h5, %h2, %h3, %p3;"
           "mov.b32 %r13, {%h4, %h5}; mov.u32 %r11, 0; mov.u32 %r12, 0;"
           /* right: b0 (rows l % 4 * 2 …, column l / 4), b1 8 rows below */
           "mad.lo.s32 %r14, %r6, 8, %r5; cvt.rn.f16.s32 %h1, %r14; add.s32 %r14, %r14, 8;"
           "cvt.rn.f16.s32 %h2, %r14; mov.b32 %r15, {%h1, %h2}; add.s32 %r14, %r14, 56;"
           "cvt.rn.f16.s32 %h1, %r14; add.s32 %r14, %r14, 8; cvt.rn.f16.s32 %h2, %r14;"
           "mov.b32 %r16, {%h1, %h2}; mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1;"
           "mov.f32 %f4, %f1;"
           "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4},"
           "{%r10, %r11, %r12, %r13}, {%r15, %r16}, {%f1, %f2, %f3, %f4};"
           "mul.wide.u32 %rd4, %r5, 32; mul.wide.u32 %rd5, %r6, 4; add.s64 %rd4, %rd4, %rd5;"
           "add.s64 %rd4, %rd4, %rd2; st.global.v2.f32 [%rd4], {%f1, %f2};"
           "st.global.v2.f32 [%rd4+256], {%f3, %f4};",
           32);
    for (uint32_t r = 0; r < 16; r++)
        for (uint32_t c = 0; c < 8; c++) {
            float x;
            memcpy(&x, &words[r * 8 + c], sizeof x);
            assert_true(x == (float)((r + 1) * (r * 8 + c) + 1));
        }
}

/* ---- what is forbidden ----------------------------------------------------------------------- */

static void test_memory(void **state) {
    (void)state;
    is_refused("st.global.u32 [%rd1+1024], %r1;", 32, "in no allocation");
    is_refused("st.global.v2.u32 [%rd1+1020], {%r1, %r1};", 32, "end of an allocation");
    is_refused("ld.global.v2.u32 {%r8, %r9}, [%rd1];", 32, "not aligned");
    is_refused("ld.global.u16 %h1, [%rd1+1];", 32, "not aligned");
    is_refused("st.shared.u32 [%r4+512], %r1;", 32, "outside");
    is_refused("st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};", 32, "not aligned");
    is_refused("ld.shared.u32 %r9, [%r4];", 32, "before it was written");
    is_refused("ld.param.u64 %rd4, [k_param_0+8];", 32, "there are 8");
    is_refused("atom.global.add.u32 %r8, [%rd1+1024], %r1;", 32, "in no allocation");
    is_refused("st.global.u32 [%rd1], %r1; atom.global.add.u32 %r8, [%rd1], %r1;", 32, "no fence");
    is_refused("prefetch.global.L2 [%rd1+1048576];", 32, "is in no allocation");
    is_refused("st.u32 [%rd1], %r1; atom.global.add.u32 %r8, [%rd1], %r1;", 32, "no fence");
    is_refused("ld.u32 %r9, [%rd1+1024];", 32, "in no allocation");
    is_refused("cvt.u64.u32 %rd4, %r4; cvta.shared.u64 %rd4, %rd4; ld.global.u32 %r9, [%rd4];", 32,
               "in no allocation");
    clear();
    memset(known + 64, 0, 4);
    const char *why = run("ld.global.u32 %r9, [%rd1];", 32);
    assert_non_null(why);
    assert_non_null(strstr(why, "kernel k, block (0, 0, 0), thread (16, 0, 0), ld.global.u32"));
    assert_non_null(strstr(why, "0x10040, 4 bytes, is read before it was written"));
}

static void test_races(void **state) {
    static const char *const turn = "xor.b32 %r5, %r3, 128; add.s32 %r5, %r5, %r2;";
    char body[1024];
    (void)state;
    snprintf(body, sizeof body, "st.shared.u32 [%%r4], %%r1; %s ld.shared.u32 %%r9, [%%r5];", turn);
    is_refused(body, 64, "before it was written"); /* the other warp has not begun */
    snprintf(body, sizeof body,
             "st.shared.u32 [%%r4], %%r1; bar.sync 0; %s ld.shared.u32 %%r9, [%%r5];"
             "st.shared.u32 [%%r4], %%r9;",
             turn);
    is_refused(body, 64, "the write by thread 0");
    is_refused("st.shared.u32 [%r4], %r1; bar.sync 0; ld.shared.u32 %r9, [%r2]; bar.warp.sync -1;"
               "setp.eq.u32 %p2, %r1, 32; @%p2 st.shared.u32 [%r2], %r9;",
               64, "the read by thread");
    is_refused("st.shared.u32 [%r4], %r1; xor.b32 %r5, %r3, 4; add.s32 %r5, %r5, %r2;"
               "ld.shared.u32 %r9, [%r5];",
               32, "the write by thread");
    is_refused("st.shared.u32 [%r2], %r1;", 32, "the write by thread");
    is_refused("cp.async.cg.shared.global [%r2], [%rd2], 16, 16; cp.async.commit_group;"
               "ld.shared.u32 %r9, [%r2];",
               32, "no barrier");
    is_refused("setp.eq.u32 %p2, %r1, 0; mov.u32 %r6, 16; @%p2 cp.async.cg.shared.global [%r2],"
               "[%rd2], 16, %r6; @%p2 ld.shared.u32 %r9, [%r2];",
               32, "still being copied");
}

/* Barriers of some of a block's warps. */
static void test_few_warps(void **state) {
    static const char *const pairs = "shr.u32 %r5, %r1, 6; add.s32 %r5, %r5, 1;"
                                     "st.shared.u32 [%r4], %r1; bar.sync %r5, 64;";
    char body[1024];
    (void)state;
    snprintf(body, sizeof body, /* the other pair's */
             "%s xor.b32 %%r6, %%r1, 64; shl.b32 %%r6, %%r6, 2; add.s32 %%r6, %%r6, %%r2;"
             "ld.shared.u32 %%r9, [%%r6];",
             pairs);
    is_refused(body, 128, "the write by thread");
    snprintf(body, sizeof body, /* the other warp of the pair may read it behind that */
             "%s xor.b32 %%r6, %%r1, 32; shl.b32 %%r6, %%r6, 2; add.s32 %%r6, %%r6, %%r2;"
             "ld.shared.u32 %%r9, [%%r6]; st.shared.u32 [%%r4], %%r9;",
             pairs);
    is_refused(body, 128, "the write by thread");
    snprintf(
        body, sizeof body, /* both warps read it, and one of them writes */
        "%s and.b32 %%r6, %%r1, 64; shl.b32 %%r6, %%r6, 2; add.s32 %%r6, %%r6, %%r2;"
        "ld.shared.u32 %%r9, [%%r6]; setp.eq.u32 %%p2, %%r1, 0; @%%p2 st.shared.u32 [%%r6], %%r9;",
        pairs);
    is_refused(body, 128, "the read by thread");
    is_refused("bar.sync 1, 96;", 64, "2 warps are in the barrier, it is of 3");
    is_refused("bar.sync 1, 32;", 64, "2 warps are in the barrier, it is of 1");
    is_refused("bar.sync 16, 64;", 64, "barrier 16 of 64 threads");
    is_refused("bar.sync 1, 40;", 64, "barrier 1 of 40 threads");
    is_refused("bar.sync %r1, 32;", 32, "lane 0 is in 0");
    is_refused("shr.u32 %r5, %r1, 5; add.s32 %r5, %r5, 1; shl.b32 %r5, %r5, 5; bar.sync 1, %r5;",
               64, "of 2 warps, for another warp of 1");
    is_refused("setp.lt.u32 %p2, %r1, 32; @%p2 bra A; bar.sync 1, 64; bra B; A: bar.sync 1, 64; B:"
               "mov.u32 %r9, 0;",
               64, "another barrier");
    is_refused("setp.lt.u32 %p2, %r1, 32; @%p2 bra A; bar.sync 0; bra B; A: bar.sync 1, 64; B:"
               "mov.u32 %r9, 0;",
               64, "1 warps are in the barrier, it is of 2");
}

static void test_lanes_that_miss(void **state) {
    (void)state;
    is_refused("@%p1 ret; bar.sync 0;", 32, "of the warp are in the barrier");
    is_refused("@%p1 bra A; bar.sync 0; bra B; A: bar.sync 0; B: mov.u32 %r9, 0;", 32,
               "different barriers");
    is_refused("@%p1 bar.sync 0;", 32, "not all of its lanes");
    is_refused("setp.lt.u32 %p2, %r1, 32; @%p2 bra A; bar.sync 0; bra B; A: bar.sync 0; B:"
               "mov.u32 %r9, 0;",
               64, "another barrier");
    is_refused("@%p1 ret; shfl.sync.bfly.b32 %r10|%p2, %r1, 1, 31, -1;", 32, "have ended");
    is_refused("@%p1 bra A; shfl.sync.bfly.b32 %r10|%p2, %r1, 1, 31, -1; A: mov.u32 %r9, 0;", 32,
               "do not come");
    is_refused("@%p1 bra A; shfl.sync.bfly.b32 %r10|%p2, %r1, 1, 31, -1; A: bar.sync 0;", 32,
               "do not come");
    is_refused("shfl.sync.bfly.b32 %r10|%p2, %r1, 16, 31, 65535;", 32, "not among those");
}

/* ---- clusters -------------------------------------------------------------------------------- */

/* `blocks` of that many threads along z, `cluster` of them together. */
static PtxLaunch clusters_of(uint32_t cluster, uint32_t blocks, uint32_t threads) {
    return (PtxLaunch){.grid = {1, 1, blocks}, .block = {threads, 1, 1}, .cluster = cluster};
}
static PtxLaunch pair(void) {
    return clusters_of(2, 2, 32);
}

/* Each thread's word of shared memory; %rd5 is where the neighbor's of the other block in a pair is, and
 * %p2 what the block of rank 0 has. */
#define FILL    "st.shared.u32 [%r4], %r1;"
#define ARRIVE  "barrier.cluster.arrive;"
#define WAIT    "barrier.cluster.wait;"
#define RELAXED "barrier.cluster.arrive.relaxed;"
#define FENCE   "fence.release.sync_restrict::shared::cta.cluster;"
#define OTHER                                                                                      \
    "mov.b32 %r7, %cluster_ctarank; setp.eq.u32 %p2, %r7, 0; xor.b32 %r7, %r7, 1;"                 \
    "cvt.u64.u32 %rd4, %r4; cvta.shared.u64 %rd4, %rd4; mapa.u64 %rd5, %rd4, %r7;"
#define FAR "ld.u32 %r9, [%rd5];"

static void test_clusters(void **state) {
    (void)state;
    clear(); /* sums through all blocks of each of two clusters */
    launch_passes("mov.u32 %r5, %ctaid.z; mad.lo.s32 %r6, %r5, 1000, %r1; st.shared.u32 [%r4], %r6;"
                  "mov.b32 %r8, %cluster_nctarank;" ARRIVE WAIT "cvt.u64.u32 %rd4, %r4;"
                  "cvta.shared.u64 %rd4, %rd4; mov.u32 %r9, 0; mov.u32 %r10, 0;"
                  "L: mapa.u64 %rd5, %rd4, %r10; ld.u32 %r11, [%rd5]; add.s32 %r9, %r9, %r11;"
                  "add.s32 %r10, %r10, 1; setp.lt.u32 %p2, %r10, %r8; @%p2 bra L;" ARRIVE WAIT
                  "mad.lo.s32 %r5, %r5, 32, %r1; mul.wide.u32 %rd6, %r5, 4;"
                  "add.s64 %rd6, %rd2, %rd6; st.global.u32 [%rd6], %r9;",
                  clusters_of(4, 8, 32));
    for (uint32_t i = 0; i < 256; i++)
        assert_int_equal(words[i], (i < 128 ? 6000 : 22000) + 4 * (i % 32));
    clear(); /* four at once, of the other block, whose first warp has these */
    launch_passes("mov.b32 %r7, %cluster_ctarank; mad.lo.s32 %r6, %r7, 100, %r1;"
                  "st.shared.u32 [%r4], %r6; barrier.cluster.arrive.release.aligned;"
                  "barrier.cluster.wait.acquire.aligned; xor.b32 %r7, %r7, 1;"
                  "mapa.shared::cluster.u32 %r8, %r2, %r7;"
                  "ld.shared::cluster.v4.u32 {%r9, %r10, %r11, %r12}, [%r8+16];"
                  "barrier.cluster.arrive.relaxed; barrier.cluster.wait.acquire;"
                  "add.s32 %r9, %r9, %r12; mov.u32 %r5, %ctaid.z; mul.wide.u32 %rd6, %r5, 256;"
                  "add.s64 %rd6, %rd1, %rd6; st.global.u32 [%rd6], %r9;",
                  clusters_of(2, 4, 64));
    for (uint32_t i = 0; i < 256; i++) assert_int_equal(words[i], i / 64 % 2 ? 11 : 211);
    clear(); /* a block alone is a cluster */
    launch_passes(FILL ARRIVE WAIT "mov.b32 %r7, %cluster_ctarank; mov.b32 %r8, %cluster_nctarank;"
                                   "xor.b32 %r5, %r3, 4; add.s32 %r5, %r5, %r2;"
                                   "cvt.u64.u32 %rd4, %r5; cvta.shared.u64 %rd4, %rd4;"
                                   "mapa.u64 %rd5, %rd4, %r7;" FAR "add.s32 %r9, %r9, %r8;" STORE,
                  one_of(64));
    for (uint32_t i = 0; i < 64; i++) assert_int_equal(words[i], (i ^ 1) + 1);
}

static void test_cluster_memory(void **state) {
    (void)state;
    launch_passes(FILL ARRIVE WAIT OTHER FAR ARRIVE WAIT, pair());
    launch_passes(FILL ARRIVE "ld.shared.u32 %r9, [%r4];" WAIT OTHER FAR ARRIVE WAIT FILL, pair());
    launch_is_refused(FILL OTHER "@!%p2 ld.u32 %r9, [%rd5];" ARRIVE WAIT, pair(),
                      "cluster orders it and the write by thread 0 of block 0");
    launch_is_refused(FILL "bar.sync 0;" OTHER "@!%p2 ld.u32 %r9, [%rd5];" ARRIVE WAIT, pair(),
                      "cluster orders it and the write by thread 0 of block 0");
    launch_is_refused(ARRIVE FILL WAIT OTHER FAR ARRIVE WAIT, pair(),
                      "cluster orders it and the write by thread 0 of block 1");
    launch_is_refused(FILL RELAXED WAIT OTHER FAR ARRIVE WAIT, pair(),
                      "cluster orders it and the write by thread 0 of block 1");
    launch_passes(FILL FENCE RELAXED WAIT OTHER FAR ARRIVE WAIT, pair());
    launch_is_refused(FENCE FILL RELAXED WAIT OTHER FAR ARRIVE WAIT, pair(),
                      "cluster orders it and the write by thread 0 of block 1");
    launch_is_refused(FILL FENCE "@%p1 " FILL RELAXED WAIT OTHER "@!%p2 " FAR ARRIVE WAIT, pair(),
                      "cluster orders it and the write by thread 0 of block 0");
    launch_is_refused(FILL ARRIVE WAIT OTHER "@%p2 ld.u32 %r9, [%rd5];" FILL ARRIVE WAIT, pair(),
                      "another block's read of shared address 0");
    launch_is_refused(FILL ARRIVE WAIT OTHER ARRIVE FAR WAIT FILL ARRIVE WAIT, pair(),
                      "another block's read of shared address 0");
    launch_is_refused(OTHER ARRIVE WAIT FAR, pair(), "before it was written");
    launch_is_refused("cp.async.cg.shared.global [%r2], [%rd2], 16, 16;" ARRIVE WAIT OTHER FAR,
                      clusters_of(2, 2, 32), "no barrier orders it");
    launch_is_refused("setp.eq.u32 %p3, %r1, 0; mov.u32 %r6, 16; @%p3 cp.async.cg.shared.global"
                      "[%r2], [%rd2], 16, %r6;" ARRIVE WAIT OTHER FAR,
                      pair(), "still being copied");
    launch_is_refused(FILL ARRIVE WAIT OTHER "ld.u32 %r9, [%rd5+512];", pair(), "outside");
    launch_is_refused(FILL ARRIVE WAIT OTHER "ld.u32 %r9, [%rd5+2];", pair(), "not aligned");
    launch_is_refused(FILL ARRIVE WAIT OTHER "ld.u32 %r9, [%rd5+33554432];", pair(),
                      "in no block of the cluster");
    launch_is_refused(FILL ARRIVE WAIT OTHER "st.u32 [%rd5+33554432], %r1;", pair(),
                      "in no block of the cluster");
    launch_is_refused(FILL ARRIVE WAIT OTHER "st.u32 [%rd5], %r1;", pair(), "no writes to other");
    launch_is_refused(OTHER "mapa.u64 %rd5, %rd4, 2;", pair(), "rank 2 of a cluster of 2 blocks");
    launch_is_refused(OTHER, one_of(32), "rank 1 of a cluster of 1 blocks");
    launch_is_refused("mapa.u64 %rd5, %rd2, 0;", pair(), "no generic address of shared memory");
    launch_is_refused(OTHER "mapa.u64 %rd5, %rd5, 0;", pair(), "no address of the block's shared");
    /* what the cluster's barrier orders within a block */
    const char *const turn =
        "xor.b32 %r5, %r3, 4; add.s32 %r5, %r5, %r2; ld.shared.u32 %r9, [%r5];";
    char body[1024];
    launch_passes(FILL ARRIVE WAIT "xor.b32 %r5, %r3, 128; add.s32 %r5, %r5, %r2;"
                                   "ld.shared.u32 %r9, [%r5];" ARRIVE WAIT
                                   "ld.shared.u32 %r9, [%r4];" FILL,
                  clusters_of(2, 2, 64));
    snprintf(body, sizeof body, "%s%s", ARRIVE FILL WAIT, turn);
    launch_is_refused(body, pair(), "the write by thread");
    snprintf(body, sizeof body, "%s%s%s", FILL ARRIVE WAIT, turn, ARRIVE WAIT FILL);
    launch_passes(body, pair());
    launch_passes(FILL ARRIVE WAIT "xor.b32 %r5, %r3, 4; add.s32 %r5, %r5, %r2;"
                                   "st.shared.u32 [%r5], %r1;",
                  pair());
    launch_is_refused(FILL ARRIVE "xor.b32 %r5, %r3, 4; add.s32 %r5, %r5, %r2;"
                                  "st.shared.u32 [%r5], %r1;" WAIT,
                      pair(), "the write by thread");
    snprintf(body, sizeof body, "%s%s%s", FILL ARRIVE WAIT ARRIVE, turn, WAIT FILL);
    launch_is_refused(body, pair(), "the read by thread");
}

static void test_cluster_barriers(void **state) {
    (void)state;
    launch_is_refused(FILL ARRIVE WAIT OTHER FAR, pair(), "block 0 of the cluster has ended");
    launch_is_refused(FILL ARRIVE WAIT OTHER "@%p2 ld.u32 %r9, [%rd5];", pair(),
                      "no barrier of the cluster is behind others' reads");
    launch_is_refused(FILL ARRIVE WAIT OTHER ARRIVE "@%p2 ld.u32 %r9, [%rd5];" WAIT, pair(),
                      "no barrier of the cluster is behind others' reads");
    launch_is_refused("@%p1 bra A;" ARRIVE WAIT "A: mov.u32 %r9, 0;", pair(),
                      "lanes 0x0000ffff of warp 0 in block 0 of the cluster do not come");
    launch_is_refused(OTHER "@%p2 bra A;" ARRIVE WAIT "A: mov.u32 %r9, 0;", pair(),
                      "lanes 0xffffffff of warp 0 in block 0 of the cluster do not come");
    launch_is_refused(OTHER "@!%p2 ret;" ARRIVE WAIT, pair(), "in block 1 of the cluster");
    launch_is_refused("setp.lt.u32 %p2, %r1, 32; @%p2 bra A; bar.sync 0; bra B; A:" ARRIVE WAIT
                      "B: mov.u32 %r9, 0;",
                      clusters_of(2, 2, 64), "another warp waits for the cluster");
    launch_is_refused("@%p1 bra A; shfl.sync.bfly.b32 %r10|%p2, %r1, 1, 31, -1; A:" ARRIVE WAIT,
                      pair(), "do not come (0xffff0000 wait, 0x0000ffff are in a barrier)");
    launch_is_refused(WAIT, pair(), "did not arrive");
    launch_is_refused(ARRIVE WAIT WAIT, pair(), "did not arrive");
    launch_is_refused(ARRIVE "@%p1 barrier.cluster.arrive;" WAIT, pair(), "did not wait");
    launch_is_refused("@%p1 barrier.cluster.arrive.aligned;", pair(), "not all of its lanes");
    launch_is_refused(ARRIVE "@%p1 barrier.cluster.wait.aligned;", pair(), "not all of its lanes");
    launch_is_refused("barrier.cluster.arrive.acquire;", pair(), "does not know");
    launch_is_refused("mov.u32 %r9, 0;", clusters_of(2, 3, 32), "clusters of 2 of 3 blocks");
    launch_is_refused("mov.u32 %r9, 0;", clusters_of(9, 9, 32), "clusters of 9 of 9 blocks");
}

/* ---- launches that begin early --------------------------------------------------------------- */

#define BEGIN "griddepcontrol.wait;"

static void test_early(void **state) {
    const PtxLaunch early = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .early = true};
    static const char *const loads[] = {
        "ld.global.u32 %r9, [%rd1];", "ld.u32 %r9, [%rd1];",
        "mul.wide.u32 %rd4, %r1, 16; and.b32 %r5, %r1, 15; shl.b32 %r5, %r5, 4;"
        "add.s32 %r5, %r5, %r2; add.s64 %rd4, %rd2, %rd4; mov.u32 %r6, 16;"
        "@%p1 cp.async.cg.shared.global [%r5], [%rd4], 16, %r6;"};
    char body[1024];
    (void)state;
    for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
        snprintf(body, sizeof body, "griddepcontrol.launch_dependents; %s %s", loads[i], BEGIN);
        clear(); /* the host sent it */
        launch_passes(body, early);
        known[8] = PTX_MADE;
        launch_is_refused(body, early, "was written on the device");
        passes(body, 32); /* what is before has ended */
        snprintf(body, sizeof body, "%s %s", BEGIN, loads[i]);
        launch_passes(body, early);
    }
    clear(); /* what a kernel writes */
    passes("st.global.u32 [%rd1], %r1;", 32);
    snprintf(body, sizeof body, "%s %s", loads[0], BEGIN);
    launch_is_refused(body, early, "was written on the device");
    clear();
    launch_passes(BEGIN "st.global.u32 [%rd1], %r1;", early);
    for (uint32_t i = 0; i < 32; i++) assert_int_equal(words[i], i);
    clear();
    launch_is_refused("st.global.u32 [%rd1], %r1;" BEGIN, early, "did not wait for what is before");
    launch_is_refused("st.u32 [%rd1], %r1;" BEGIN, early, "did not wait for what is before");
    launch_is_refused("atom.global.add.u32 %r8, [%rd1], %r1;" BEGIN, early, "did not wait for");
    launch_is_refused("@%p1 griddepcontrol.wait; st.global.u32 [%rd1], %r1;", early,
                      "thread (16, 0, 0)");
    launch_is_refused("mov.u32 %r9, 0;", early, "it ends, and did not wait");
    launch_is_refused("@%p1 ret;" BEGIN, early, "it ends, and did not wait");
    passes("@%p1 ret;" BEGIN "st.global.u32 [%rd1], %r1;", 32);
}

static void test_modules(void **state) {
    (void)state;
    is_refused("brev.b32 %r9, %r1;", 32, "does not know");
    is_refused("add.s32 %r9, %r1, %h1;", 32, "has 2 bytes");
    is_refused("bra NOWHERE;", 32, "no label NOWHERE");
    is_refused("mov.u32 %r9, 1;", 256, "built for 128");
    is_refused("mov.u32 %r9, 1;", 48, "a block of 48");
}

/* All kernels of the build are understood. */
static void test_build(void **state) {
    static const char *const families[] = {
#define FAMILY(name) FAKE_CUDA_FOLDER "/" #name ".ptx",
#include "cuda_families.def"
#undef FAMILY
    };
    static char text[1 << 23];
    char why[PTX_WHY];
    (void)state;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        FILE *from = fopen(families[i], "rb");
        assert_non_null(from);
        text[fread(text, 1, sizeof text - 1, from)] = 0;
        fclose(from);
        PtxModule *module = ptx_open(text, why);
        if (!module) fail_msg("%s", why);
        uint32_t count = 0;
        for (const char *name; (name = ptx_name(module, count)); count++)
            if (!ptx_find(module, name, why)) fail_msg("%s: %s", families[i], why);
        assert_true(count > 0);
        ptx_close(module);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_lanes),
        cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_races),
        cmocka_unit_test(test_few_warps),
        cmocka_unit_test(test_lanes_that_miss),
        cmocka_unit_test(test_clusters),
        cmocka_unit_test(test_cluster_memory),
        cmocka_unit_test(test_cluster_barriers),
        cmocka_unit_test(test_early),
        cmocka_unit_test(test_modules),
        cmocka_unit_test(test_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
