// SPDX-License-Identifier: Apache-2.0
/* hash64 against results of another implementation of XXH64, over contents made by a formula, and
 * against itself for every way to cut the contents. */
#include <string.h>

#include "hash64.h"
#include "unit_test.h"

enum { MOST = 4096 };
static const uint64_t other_seed = 0x9E3779B185EBCA8Du;

static void fill(unsigned char *bytes) {
    for (uint32_t i = 0; i < MOST; i++) bytes[i] = (unsigned char)((i * 131 + 7) * (i + 3) >> 3);
}

TEST(test_known_results) {
    static const struct {
        size_t size;
        uint64_t seed_zero, seed_other;
    } known[] = {
        {0, 0xef46db3751d8e999u, 0x0b303d920ec349dfu},
        {1, 0x4b79b8c95732b0e7u, 0x96c1091ff9679b70u},
        {3, 0x633a7670b4b5d14du, 0xb2c0ef3e9b080311u},
        {4, 0xc750d794c28d010fu, 0x3ab86b6ddac5d1e0u},
        {5, 0xe59af0173faa7978u, 0xe20a543c550653dcu},
        {7, 0x369381588951578du, 0x504e04e4d6c5c8b8u},
        {8, 0xb689e5ae08e9cb7au, 0xa051c4ed18a9c0b2u},
        {9, 0x76e0b7554da6cdfau, 0x7aed069aafdc2d73u},
        {15, 0xe09d25413418c6e8u, 0xa16968c1717f2dd5u},
        {16, 0x82594fa6226b4367u, 0xe691374d0d8a0e09u},
        {31, 0x094c31862bb35c11u, 0xed1adab55b0ef7b1u},
        {32, 0x231c820a604902d1u, 0x3e887c9d8dedb6a9u},
        {33, 0xfc6e2e3dd627e4d6u, 0x793c910c7eb5b581u},
        {63, 0xfb2645127ca3bb04u, 0xc051b9ff965f93e4u},
        {64, 0x2631c6e3d2d20f6du, 0x2f76a940211a0550u},
        {65, 0xbc3a4e7fba83a479u, 0x97482d53c367b5dbu},
        {100, 0x7252c14f39ee2d6du, 0xe8c5c9cfee4c57c9u},
        {255, 0x321a9671b5edccceu, 0xc120fca8d248fa3du},
        {1000, 0x256e8a7471b1b778u, 0xa00b9d5686c5eb10u},
        {4096, 0x428fc5a6b62d7485u, 0x6dbeec835ef157dfu},
    };
    unsigned char bytes[MOST];
    fill(bytes);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        assert_true(hash64_bytes(bytes, known[i].size, 0) == known[i].seed_zero);
        assert_true(hash64_bytes(bytes, known[i].size, other_seed) == known[i].seed_other);
    }
    assert_true(hash64_bytes("abc", 3, 0) == 0x44bc2cf5ad770999u);
    assert_true(hash64_bytes(NULL, 0, 0) == 0xef46db3751d8e999u);
}

TEST(test_any_division) {
    unsigned char bytes[MOST];
    fill(bytes);
    for (size_t size = 0; size < 200; size++) {
        uint64_t expected = hash64_bytes(bytes, size, 5);
        for (size_t cut = 0; cut <= size; cut++) {
            Hash64 hash;
            hash64_init(&hash, 5);
            hash64_update(&hash, bytes, cut);
            (void)hash64_final(&hash); /* changes nothing */
            hash64_update(&hash, bytes + cut, size - cut);
            assert_true(hash64_final(&hash) == expected);
        }
    }
    Hash64 hash;
    hash64_init(&hash, 5);
    for (size_t at = 0, step = 1; at < MOST; at += step, step = step % 67 + 1) {
        if (step > MOST - at) step = MOST - at;
        hash64_update(&hash, bytes + at, step);
    }
    assert_true(hash64_final(&hash) == hash64_bytes(bytes, MOST, 5));
}

/* The bytes' alignment plays no part. */
TEST(test_unaligned) {
    unsigned char bytes[MOST], moved[MOST + 8];
    fill(bytes);
    for (size_t shift = 0; shift < 8; shift++) {
        memcpy(moved + shift, bytes, MOST);
        assert_true(hash64_bytes(moved + shift, MOST, 0) == hash64_bytes(bytes, MOST, 0));
    }
}
