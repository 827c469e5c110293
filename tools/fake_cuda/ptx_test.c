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
 * first 16 have; s is 256 bytes of shared memory. */
static void write_kernel(char *text, size_t size, const char *body) {
    snprintf(text, size,
             ".version 9.0\n.target sm_90\n.address_size 64\n"
             ".visible .entry k(.param .align 8 .b8 k_param_0[8])\n.maxntid 128, 1, 1\n{\n"
             ".reg .pred %%p<9>;\n.reg .b16 %%h<9>;\n.reg .b32 %%r<40>;\n.reg .f32 %%f<20>;\n"
             ".reg .b64 %%rd<9>;\n.reg .f64 %%fd<9>;\n.shared .align 16 .b8 s[256];\n"
             "mov.u32 %%r1, %%tid.x;\nld.param.u64 %%rd2, [k_param_0];\n"
             "mul.wide.u32 %%rd3, %%r1, 4;\nadd.s64 %%rd1, %%rd2, %%rd3;\n"
             "setp.lt.u32 %%p1, %%r1, 16;\nmov.u32 %%r2, s;\nshl.b32 %%r3, %%r1, 2;\n"
             "add.s32 %%r4, %%r2, %%r3;\n%s\nret;\n}\n",
             body);
}

/* Runs it in one block. NULL, or why it could not. */
static const char *run(const char *body, uint32_t threads) {
    static char text[1 << 14], why[PTX_WHY];
    const uint64_t at = AT;
    write_kernel(text, sizeof text, body);
    PtxModule *module = ptx_open(text, why);
    assert_non_null(module);
    const PtxKernel *kernel = ptx_find(module, "k", why);
    const PtxLaunch launch = {
        .grid = {1, 1, 1}, .block = {threads, 1, 1}, .params = &at, .find = find};
    const bool ok = kernel && ptx_run(kernel, &launch, why);
    ptx_close(module);
    return ok ? NULL : why;
}

static void clear(void) {
    memset(words, 0, sizeof words);
    memset(known, 1, sizeof known);
}
static void passes(const char *body, uint32_t threads) {
    const char *why = run(body, threads);
    if (why) fail_msg("%s\n%s", why, body);
}
/* The message holds the words. */
static void is_refused(const char *body, uint32_t threads, const char *with) {
    clear();
    const char *why = run(body, threads);
    if (!why || !strstr(why, with)) fail_msg("%s, not %s\n%s", why ? why : "passes", with, body);
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
    is_refused("st.shared.u32 [%r4+256], %r1;", 32, "outside");
    is_refused("st.shared.v4.u32 [%r4], {%r1, %r1, %r1, %r1};", 32, "not aligned");
    is_refused("ld.shared.u32 %r9, [%r4];", 32, "before it was written");
    is_refused("ld.param.u64 %rd4, [k_param_0+8];", 32, "there are 8");
    is_refused("atom.global.add.u32 %r8, [%rd1+1024], %r1;", 32, "in no allocation");
    is_refused("st.global.u32 [%rd1], %r1; atom.global.add.u32 %r8, [%rd1], %r1;", 32, "no fence");
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
        cmocka_unit_test(test_halves),          cmocka_unit_test(test_values),
        cmocka_unit_test(test_lanes),           cmocka_unit_test(test_matrices),
        cmocka_unit_test(test_memory),          cmocka_unit_test(test_races),
        cmocka_unit_test(test_lanes_that_miss), cmocka_unit_test(test_modules),
        cmocka_unit_test(test_build),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
