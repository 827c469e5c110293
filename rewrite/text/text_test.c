// SPDX-License-Identifier: Apache-2.0
/* Tests of the text form: printed texts are fixed points, other texts have the canonical form they
 * should, errors name their place, every bit pattern of every small type survives, and no text,
 * however broken, does harm. Models filled at random in every field are in text_model_test.c. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"
#include "text_words.h"
#include "unit_test.h"
#include "verify.h"

typedef struct Buffer {
    Arena *arena;
    VEC(char) text;
} Buffer;

static void buffer_write(void *data, const char *text, size_t size) {
    Buffer *buffer = data;
    for (size_t i = 0; i < size; i++) VEC_PUSH(buffer->arena, &buffer->text, text[i]);
}

static const char *print_as(const Model *model, Arena *arena, TextDetail detail) {
    Buffer buffer = {.arena = arena};
    TextSink sink = {buffer_write, &buffer};
    Err err = {0};
    assert_true(text_print_model(model, detail, &sink, &err));
    VEC_PUSH(arena, &buffer.text, '\0');
    return buffer.text.items;
}

static Model *parse(const char *text) {
    Err err = {0};
    Model *model = text_parse_model(text, strlen(text), &test_trap, &err);
    if (!model) {
        char message[2048];
        err_format(&err, message, sizeof message);
        print_error("%s\nin: %s\n", message, text);
    }
    assert_non_null(model);
    assert_int_equal(model->edits, 0);
    return model;
}

/* Parses, prints, and checks that the print is a fixed point. */
static const char *canonical(const char *text, Arena *arena) {
    Model *model = parse(text);
    const char *once = print_as(model, arena, TEXT_FULL);
    model_free(model);
    model = parse(once);
    assert_string_equal(print_as(model, arena, TEXT_FULL), once);
    model_free(model);
    return once;
}

#define HEAD "<ir_version: 8, opset_import: [\"\" : 17]>\n"

/* Texts that are printed exactly as they stand. */
static const char *const fixed_points[] = {
    "g () => () {\n}\n",
    HEAD "g (float[N,3] x) => (float[N,3] y) {\n  y = Relu (x)\n}\n",
    "<ir_version: 10, opset_import: [\"\" : 20, \"com.x\" : 1, ? : ?, \"q\" : 2 "
    "@unknown(\"1801\")],\n"
    " producer_name: \"p\",\n producer_version: \"\",\n domain: \"d\",\n model_version: -3,\n"
    " doc_string: \"line\\nnext \\\"q\\\" \\\\ \\x00\\xff \xc3\xa4\",\n"
    " metadata_props: [\"k\": \"v\", ?: \"\", \"z\": ? @unknown(\"1a00\")],\n unknown: \"aabb\">\n"
    "g () => () {\n} @doc(\"graph\") @meta[\"a\": \"b\"] @unknown(\"0a\")\n",
    "<producer_name: \"only\">\n\"\" () => () {\n}\n",
    "? () => () {\n}\n",
    /* types */
    HEAD
    "g (float a, float[] b, float[?,-1,N,\"a b\",\"\"] c, seq(float[2]) d, optional(seq(int64)) e, "
    "map(string, float[N]) f, sparse_tensor(double[2,?]) h, opaque() i, opaque(n.m) j, "
    "opaque(a.b, c) k, opaque(\"x y\", \"z-\") l, opaque(?) @type_unknown(\"3a0112\") m, "
    "\"float\", "
    "seq() n, optional() o, map(int64) q, map(?) r, ?[2] s, ?99[3] t, ?0 u, ?? v, ?-7 w) => () "
    "{\n}\n",
    HEAD
    "g (float[N @denotation(\"DATA_BATCH\"),3 @dim_unknown(\"2a00\")] @denotation(\"TENSOR\") "
    "@type_unknown(\"5000\") @inner_unknown(\"18\") @shape_unknown(\"1901\") x @doc(\"input\") "
    "@meta[\"a\": \"b\"] @unknown(\"2801\"), seq(float @denotation(\"IN\")) @denotation(\"OUT\") "
    "y) => "
    "(x @doc(\"\")) {\n}\n",
    HEAD
    "g (uint8 a, int8 b, uint16 c, int16 d, int32 e, int64 f, string h, bool i, float16 j, double "
    "k, "
    "uint32 l, uint64 m, complex64 n, complex128 o, bfloat16 p, float8e4m3fn q, float8e4m3fnuz r, "
    "float8e5m2 s, float8e5m2fnuz t, uint4 u, int4 v, float4e2m1 w, float8e8m0 x, uint2 y, int2 z, "
    "float6e2m3 a1, float6e3m2 a2) => () {\n}\n",
    /* initializers: usual fields */
    HEAD
    "g () => ()\n<float[4] a = {1, -0, 0.1, 1e+20},\n float b = {inf},\n"
    " float[6] c = {nan, -nan, -inf, nan(0x7f800001), 1e-45, 3.4028235e+38},\n"
    " double[4] d = {0.1, 5e-324, nan(0xfff8000000000001), 1.7976931348623157e+308},\n"
    " float16[6] e = {1v, -0v, 0.333v, infv, 32257, 65504v},\n bfloat16[3] f = {1v, 3.39e+38v, "
    "-infv},\n"
    " float8e4m3fn[4] h = {1v, 448v, 127, -0v},\n float8e4m3fnuz[2] i = {240v, 128},\n"
    " float8e5m2[2] j = {infv, 125},\n float8e5m2fnuz[1] k = {57344v},\n"
    " float8e8m0[3] l = {1v, 1.701e+38v, 255},\n float4e2m1[3] m = {1v, -6v, 0.5v},\n"
    " int4[3] n = {1v, -8v, 7v},\n uint4[2] o = {15v, 0v},\n int2[5] p = {1v, -2v, 0v, 1v, -1v},\n"
    " uint2[1] q = {3v},\n float6e2m3[2] r = {7.5v, -0v},\n float6e3m2[2] s = {28v, 0.0625v},\n"
    " int64[2] t = {-9223372036854775808, 9223372036854775807},\n"
    " uint64[1] u = {18446744073709551615},\n uint32[1] v = {4294967295},\n bool[2] w = {1, 0},\n"
    " string[2] x = {\"a\", \"\\xff\\x00\"},\n complex64[1] y = {1, -2.5},\n complex128[1] z = {1, "
    "nan},\n"
    " int8[2] a1 = {-128, 127},\n uint16[0] a2 = {}>\n{\n}\n",
    /* initializers: other fields, wrong lengths, what goes beyond */
    HEAD "g () => ()\n<float[2] a = @raw {1, 2.5},\n float[2] b = @raw(\"0000803f00\"),\n"
         " float16[3] c = @raw {1v, 31745, -infv},\n int4[3] d = @raw {1v, -8v, 7v},\n"
         " int4[3] e = @raw(\"ffff\"),\n float6e2m3[5] f = @raw {1v, 0.125v, -7.5v, 0v, 2v},\n"
         " complex128[1] h = @raw {1, -0},\n bool[2] i = @raw {1, 255},\n uint64[1] j = @raw "
         "{18446744073709551615},\n"
         " int8[2] k = @raw {-128, 127},\n string[1] l = @raw(\"61\"),\n ?99[1] m = @raw(\"00\"),\n"
         " ?99[1] n = @store(int32_data) {-5},\n float[1] o = @store(double_data) {0.1},\n"
         " float[1] p = @store(float_data) {},\n int4[3] q = {1, 2, 3},\n int4[3] r = {-1, 300},\n"
         " float16[1] s = {-1},\n ?[2] t = {},\n float[0] u = @raw {},\n string[1] v = "
         "@store(int64_data) {1},\n"
         " float[2] w = [\"location\": \"w.bin\", \"offset\": \"0\"] @doc(\"ext\"),\n"
         " float[2] x = @raw {1, 2} @external[\"a\": \"b\"],\n"
         " float[-1] y = {1} @doc(\"t\") @meta[\"k\": \"v\"] @unknown(\"1a02\"),\n"
         " float[1] \"odd name\" = {1},\n"
         " sparse_tensor[3,4] z = {float[1] {5}, int64[1] idx {7}} @unknown(\"2a00\"),\n"
         " sparse_tensor a1 = {!, !},\n float[N] known,\n stale @doc(\"d\")>\n{\n"
         "  known = Relu (a)\n}\n",
    /* nodes */
    HEAD "g (float x) => (y) {\n  [n1] y = com.x.Op:o (x, \"\", x)\n  [\"\"] a, \"\", b = "
         "\"\".Relu (y, x)\n"
         "  = NoOutput ()\n  \"o.1\" = \"my-domain\".\"Op!\":\"\" (x) @doc(\"d\") "
         "@meta[\"demi.inserted\": \"cast\"] "
         "@unknown(\"7801\")\n  c = ? (x)\n  d = \"\" (x)\n  e = com.? (x)\n  \"\" = Dropout (x)\n"
         "  f = ?:ov (x) @device(\"\") @device(\"0a03\", x @unknown(\"1001\"), ?, nothing)\n}\n",
    HEAD "g () => () {\n  y = Op <i = -5, f = 1.0, s = \"a\\\"b\", fs = [1.0, 2.5, inf, nan], is = "
         "[1, 2], "
         "ss = [\"a\", \"\"], t = float[2] {1, 2}, n = float16 name {1v}, tp = float[N], "
         "tps = [seq(float), float[2]], ts = [float {1}, int64[1] x @raw {2}], e = float[1] = "
         "[\"location\": \"f\"], sp = sparse_tensor[2] {float[1] {1}, int64[1] {0}}, sps = "
         "[sparse_tensor {!, !}], \"odd name\" = 1, float = 2.0, ?: ints = []> ()\n}\n",
    HEAD
    "g () => () {\n  y = Op <i: int = !, f: float = ! @untyped, l: floats = [], r: float = @ref, "
    "q: int = @\"a b\" = 3, p = @ref, u: ?0 = !, v: ?0 = ! @untyped, w: ?77 = !, x = 1 @untyped "
    "@attr_doc(\"doc\") @attr_unknown(\"aa\"), t: tensor = !, g: graph = !, tp: type_proto = !, "
    "z = 1 | floats = [1.0, 2.0] | tensor = float {1} | string = \"s\"> ()\n}\n",
    /* subgraphs */
    HEAD "g (bool c, float x) => (float y) {\n  y = If (c) <then_branch = t () => (float a) {\n"
         "    a = Relu (x)\n  }, else_branch = \"e-1\" () => (float b)\n  <float w = {1}>\n  {\n   "
         " b = Add (x, w)\n  } "
         "@doc(\"else\")>\n}\n",
    HEAD "g () => () {\n  y = Op () <gs = [a () => () {\n  }, ? () => () {\n  }, \"float\" () => "
         "() {\n  }]>\n}\n",
    /* quantization, functions, training */
    HEAD
    "g (float x) => ()\n<float s = {1}>\n{\n} @quant(x @unknown(\"1a00\"), \"SCALE_TENSOR\": s, "
    "\"Z\": none @unknown(\"08\"), ?: ?) @quant(?)\n",
    HEAD "g (float x) => (y) {\n  y = f.F <a = 1> (x)\n}\n<domain: \"f\", overload: \"o\", "
         "opset_import: "
         "[\"\" : 17],\n doc_string: \"d\",\n metadata_props: [\"a\": \"b\"],\n unknown: \"08\">\n"
         "F <a, \"b c\", d = 1.5, e: ints = []> (x, \"y 1\") => (z)\n<float[N] x,\n float z>\n{\n  "
         "z = Op <v: int = @a> "
         "(x)\n}\n? () => () {\n}\n",
    HEAD "g (float x) => (y)\n<float w = {1}>\n{\n  y = Mul (x, w)\n}\n@training <initialization: "
         "i () => (float w0)"
         " {\n  w0 = Op ()\n},\n algorithm: a () => (float w1) {\n  w1 = Sub (w, x)\n},\n"
         " initialization_binding: [\"w\": \"w0\"],\n update_binding: [\"w\": \"w1\", ?: ? "
         "@unknown(\"00\")],\n"
         " unknown: \"aa\">\n@training <>\n",
};

TEST(test_fixed_points) {
    for (size_t i = 0; i < sizeof fixed_points / sizeof *fixed_points; i++)
        assert_string_equal(canonical(fixed_points[i], &test_arena), fixed_points[i]);
}

/* Other spellings that ONNX's syntax allows, and what they mean. */
static const char *const spellings[][2] = {
    {"# comment\n<\n ir_version: 8,\n opset_import: [ \"\" : 17 ]\n>\ng(float[N, 3] x)=>(float "
     "y){y=Relu(x)}#end",
     HEAD "g (float[N,3] x) => (float y) {\n  y = Relu (x)\n}\n"},
    {"g (float[2] x = {1,2}) => () {}", "g (float[2] x) => ()\n<float[2] x = {1, 2}>\n{\n}\n"},
    {"g () => () < > {y = Op(,x,) <a:int=1>}", "g () => () {\n  y = Op <a = 1> (\"\", x)\n}\n"},
    {"g () => () {y = Op <f: float = 1, fs: floats = [1, -0, 2e3, -inf, Infinity]> ()}",
     "g () => () {\n  y = Op <f = 1.0, fs = [1.0, -0.0, 2000.0, -inf, inf]> ()\n}\n"},
    {"g () => () {y = Op <t = float[1] name = {1.}, u = float = {0x10}> ()}", NULL},
    {"g () => () <float16 h = {0x3c00}, int8 i = {0x7f}, float16 v = {0.1v}> {}",
     "g () => ()\n<float16 h = {1v},\n int8 i = {127},\n float16 v = {0.1v}>\n{\n}\n"},
    {"g () => () {\"a\" = \"Op\" (\"\\u0041\\u00e4\\n\\q\")}",
     "g () => () {\n  a = Op (\"A\xc3\xa4\\nq\")\n}\n"},
    {"g () => () {y = If(c) <then_branch = inf1 () => () {}, else_branch = opaque1 () => () {}>}",
     "g () => () {\n  y = If (c) <then_branch = inf1 () => () {\n  }, else_branch = opaque1 () => "
     "() {\n  }>\n}\n"},
    {"g () => () {} f (float[2] x, y) => (float z) <int64 t> {z = Add(x, y)}",
     "g () => () {\n}\nf (x, y) => (z)\n<float[2] x,\n float z,\n int64 t>\n{\n  z = Add (x, "
     "y)\n}\n"},
    {"g () => () <float a = {1}> {y = Op<x=[1,2,]>()}", NULL},
};

TEST(test_spellings) {
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        if (spellings[i][1]) {
            assert_string_equal(canonical(spellings[i][0], &test_arena), spellings[i][1]);
            continue;
        }
        Err err = {0};
        assert_null(text_parse_model(spellings[i][0], strlen(spellings[i][0]), &test_trap, &err));
    }
}

typedef struct BadText {
    const char *text, *what, *where;
} BadText;

static const BadText bad_texts[] = {
    {"", "expected a string, found the end of the text", "line 1, column 1"},
    {"g () => () {", "found the end of the text", "line 1, column 13"},
    {"<foo: 1> g () => () {}", "not a field here", "line 1, column 2"},
    {"<ir_version: 1, ir_version: 2> g () => () {}", "given before", "line 1, column 17"},
    {"<ir_version: 99999999999999999999> g () => () {}", "64 bits", "line 1, column 14"},
    {"<ir_version: 1.5> g () => () {}", "expected an integer, found a number", "line 1, column 14"},
    {"g (float x, float x) => () {}", "'x' is defined twice", "line 1, column 19"},
    {"g (float x) => () {\n x = Op ()\n}", "'x' is defined twice", "line 2, column 2"},
    {"g () => () {\n x, x = Op ()\n}", "'x' is defined twice", "line 2, column 2"},
    {"g () => () { x = Op <a = \"\\\n\n\"> ()\n x = Op () }", "'x' is defined twice",
     "line 4, column 2"},
    {"g () => () <float a = {1}, float a = {1}> {}", "'a' is defined twice", "line 1, column 34"},
    {"g () => () <float[] a = {1}> {}", "dimensions must be given", "line 1, column 23"},
    {"g () => () <float[N] a = {1}> {}", "must be numbers", "line 1, column 24"},
    {"g () => () <seq(float) a = {1}> {}", "not a tensor", "line 1, column 26"},
    {"g () => () <a = {1}> {}", "needs a type", "line 1, column 13"},
    {"g () => () <uint64 a = {-1}> {}", "64 bits without sign", "line 1, column 25"},
    {"g () => () <int8 a = @raw {128}> {}", "integer of 8 bits", "line 1, column 28"},
    {"g () => () <int32 a = {2147483648}> {}", "integer of 32 bits", "line 1, column 24"},
    {"g () => () <int32 a = {1v}> {}", "integer of 32 bits", "line 1, column 24"},
    {"g () => () <float a = {1e39}> {}", "type float", "line 1, column 24"},
    {"g () => () <float a = {1v}> {}", "type float", "line 1, column 24"},
    {"g () => () <float16 a = {65520v}> {}", "value of type float16", "line 1, column 26"},
    {"g () => () <float8e4m3fn a = {465v}> {}", "value of type float8e4m3fn", "line 1, column 31"},
    {"g () => () <float8e4m3fn a = {infv}> {}", "value of type float8e4m3fn", "line 1, column 31"},
    {"g () => () <int4 a = {8v}> {}", "value of type int4", "line 1, column 23"},
    {"g () => () <int4 a = {1.5v}> {}", "value of type int4", "line 1, column 23"},
    {"g () => () <int4 a = {1v, 2}> {}", "mixed", "line 1, column 22"},
    {"g () => () <float a = {\"s\"}> {}", "expected a number", "line 1, column 24"},
    {"g () => () <string a = {1}> {}", "expected a string", "line 1, column 25"},
    {"g () => () <?99 a = {1}> {}", "@store or @raw", "line 1, column 21"},
    {"g () => () <float[9] a = {...}> {}", "omits a tensor's data", "line 1, column 27"},
    {"g () => () <float[99] a = {\xe2\x80\xa6 99 elements}> {}", "omits a tensor's data",
     "line 1, column 28"},
    {"g () => () <float a = @raw(\"0g\")> {}", "hexadecimal", "line 1, column 28"},
    {"g () => () <float a = @raw(\"0\")> {}", "hexadecimal", "line 1, column 28"},
    {"g () => () <float a = @store(raw_data) {}> {}", "not a data field", "line 1, column 30"},
    {"g () => () {y = Op <x = []> ()}", "needs its attribute's type", "line 1, column 25"},
    {"g () => () {y = Op <x: int = [1]> ()}", "type is not a list", "line 1, column 30"},
    {"g () => () {y = Op <x: int = \"s\"> ()}", "a different type", "line 1, column 30"},
    {"g () => () {y = Op <x = [1, \"s\"]> ()}", "a different type", "line 1, column 29"},
    {"g () => () {y = Op <x: foo = 1> ()}", "not an attribute type", "line 1, column 24"},
    {"g () => () {y = Op <x = !> ()}", "needs a type", "line 1, column 25"},
    {"g () => () {y = Op <x = @?> ()}", "reference without name", "line 1, column 25"},
    {"g () => () {y = Op (\"abc)}", "string without an end", "line 1, column 21"},
    {"g () => () {y = Op (\"\\x4\")}", "malformed escape", "line 1, column 21"},
    {"g () => () {y = Op (12ab)}", "runs into a name", "line 1, column 21"},
    {"g () => () {y = Op (x) @foo(1)}", "expected '='", "line 1, column 24"},
    {"g () => () {y = Op (\x01)}", "unexpected character", "line 1, column 21"},
    {"g () => () {} f", "expected '('", "line 1, column 16"},
    {"g () => () {} @training <domain: \"x\">", "not a field here", "line 1, column 26"},
    {"g (half x) => () {}", "expected ')', found a name", "line 1, column 9"},
};

TEST(test_errors) {
    for (size_t i = 0; i < sizeof bad_texts / sizeof *bad_texts; i++) {
        const BadText *bad = &bad_texts[i];
        Err err = {0};
        assert_null(text_parse_model(bad->text, strlen(bad->text), &test_trap, &err));
        assert_int_equal(err.code, ERR_MODEL);
        if (!strstr(err.what, bad->what) || strcmp(err.operand, bad->where) != 0)
            fail_msg("%s\n  said: %s at %s\n  not: %s at %s", bad->text, err.what, err.operand,
                     bad->what, bad->where);
    }
}

/* ---- numbers --------------------------------------------------------------------------------- */

TEST(test_elements) {
    char text[TEXT_NUMBER];
    for (int d = 1; d < DTYPE_COUNT; d++) {
        Dtype dtype = (Dtype)d;
        if (!text_is_small_float(dtype) && !text_is_packed(dtype)) continue;
        for (uint64_t bits = 0; bits < UINT64_C(1) << dtype_bits(dtype); bits++) {
            size_t length = text_format_element(text, dtype, bits);
            uint64_t back = ~bits;
            if (text[length - 1] == 'v') {
                assert_true(text_read_element(dtype, text, length - 1, &back));
            } else {
                double value;
                assert_true(dtype_to_double(dtype, bits, &value) && value != value);
                back = strtoull(text, NULL, 10);
            }
            assert_int_equal(back, bits);
        }
    }
}

static uint64_t random_next(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 11 ^ *state << 40;
}

TEST(test_floats) {
    uint64_t seed = 1;
    char text[TEXT_NUMBER];
    for (int i = 0; i < 200000; i++) {
        uint32_t bits = (uint32_t)random_next(&seed), back_bits;
        uint64_t wide = random_next(&seed) ^ random_next(&seed) << 32, back_wide;
        float value, back;
        double value_wide, back_value;
        memcpy(&value, &bits, 4);
        memcpy(&value_wide, &wide, 8);
        size_t length = text_format_float(text, value);
        if (value == value) {
            assert_true(text_read_float(text, length, &back));
            memcpy(&back_bits, &back, 4);
            assert_int_equal(back_bits, bits);
        }
        length = text_format_double(text, value_wide);
        if (value_wide == value_wide) {
            assert_true(text_read_double(text, length, &back_value));
            memcpy(&back_wide, &back_value, 8);
            assert_true(back_wide == wide);
        }
    }
}

/* ---- names ----------------------------------------------------------------------------------- */

TEST(test_names) {
    Model *model =
        parse("g (float x) => (y) <float w = {1}> { late = Relu (later)\n later = Relu (x)\n"
              " y = If (x) <b = s () => (x, q) { x = Add (w, nowhere) \n z = Neg (w) }> }"
              " @quant(x, \"S\": w, \"Z\": gone)");
    Graph *graph = model->graph;
    assert_ptr_equal(graph->first->inputs[0].value, graph->first->next->outputs[0]);
    Node *branch = graph->last;
    Graph *inner = branch->attrs->v.g;
    assert_ptr_equal(inner->owner, branch);
    assert_ptr_equal(inner->parent, graph);
    assert_ptr_equal(inner->first->inputs[0].value, graph->initializers.items[0]);  /* captured */
    assert_ptr_equal(inner->outputs.items[0]->use.value, inner->first->outputs[0]); /* shadows x */
    assert_int_equal(inner->undefined.count, 2);
    assert_string_equal(inner->undefined.items[0]->name->text, "q");
    assert_string_equal(inner->undefined.items[1]->name->text, "nowhere");
    assert_int_equal(graph->undefined.count, 0);
    assert_true(graph->inputs.items[0]->referenced);
    assert_ptr_equal(graph->annotations.items[0].params[0].value, graph->initializers.items[0]);
    assert_null(graph->annotations.items[0].params[1].value);
    assert_int_equal(type_dtype(graph->inputs.items[0]->type), DTYPE_FLOAT);
    assert_null(graph->initializers.items[0]->type); /* nothing declares it: its data tells */
    model_free(model);
}

TEST(test_verified) {
    Model *model =
        parse(HEAD "g (bool c, float x) => (float y) { y = If (c) <then_branch = t () => "
                   "(float a) { a = Relu (x) }, else_branch = e () => (float b) { b = Neg "
                   "(x) }> }");
    Err err = {0};
    assert_true(model_verify(model, &test_arena, &err));
    model_free(model);
}

/* ---- short form ------------------------------------------------------------------------------ */

TEST(test_short) {
    Model *model =
        parse("g () => () <float[2] a = {1, 2}, float[17] b = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "
              "11, 12, 13, 14, 15, 16, 17}, int8[20] c = @raw {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, "
              "11, 12, 13, 14, 15, 16, 17, 18, 19, 20}> {}");
    const char *text = print_as(model, &test_arena, TEXT_SHORT);
    assert_string_equal(
        text, "g () => ()\n<float[2] a = {1, 2},\n float[17] b = {\xe2\x80\xa6 17 elements},\n"
              " int8[20] c = @raw {\xe2\x80\xa6 20 elements}>\n{\n}\n");
    Err err = {0};
    assert_null(text_parse_model(text, strlen(text), &test_trap, &err));
    assert_non_null(strstr(err.what, "omits a tensor's data"));
    model_free(model);
}

/* ---- hostile texts --------------------------------------------------------------------------- */

static void try_text(const char *text, size_t size) {
    /* A copy of exactly this size, so that reading beyond it is seen by the sanitizer. */
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    Err err = {0};
    Model *model = text_parse_model(copy, size, &test_trap, &err);
    assert_true(model || err.code == ERR_MODEL);
    model_free(model);
    free(copy);
}

TEST(test_truncated) {
    for (size_t i = 0; i < sizeof fixed_points / sizeof *fixed_points; i++)
        for (size_t size = 0; size < strlen(fixed_points[i]); size++)
            try_text(fixed_points[i], size);
}

TEST(test_flipped) {
    static const char letters[] = "<>(){}[],.:=?!|@\"\\#-0v\xff\n ";
    uint64_t seed = 7;
    for (size_t i = 0; i < sizeof fixed_points / sizeof *fixed_points; i++) {
        size_t size = strlen(fixed_points[i]);
        char *text = malloc(size);
        assert_non_null(text);
        for (int round = 0; round < 500; round++) {
            memcpy(text, fixed_points[i], size);
            for (int change = 0; change <= round % 3; change++)
                text[random_next(&seed) % size] =
                    round % 2 ? (char)random_next(&seed)
                              : letters[random_next(&seed) % (sizeof letters - 1)];
            try_text(text, size);
        }
        free(text);
    }
}

TEST(test_depth) {
    char text[20000] = "g (";
    for (int i = 0; i < 1000; i++) strcat(text, "seq(");
    Err err = {0};
    assert_null(text_parse_model(text, strlen(text), &test_trap, &err));
    assert_non_null(strstr(err.what, "nested"));
    strcpy(text, "g () => () {");
    for (int i = 0; i < 500; i++) strcat(text, "=O<g=g()=>(){");
    err = (Err){0};
    assert_null(text_parse_model(text, strlen(text), &test_trap, &err));
    assert_non_null(strstr(err.what, "nested"));
}

/* A hundred thousand nodes that read each other in reverse order: seconds, not hours. */
TEST(test_large) {
    enum { NODES = 100000 };
    char *text = malloc(NODES * 40 + 100), *at = text;
    assert_non_null(text);
    at += sprintf(at, "g (float v%d) => () {\n", NODES);
    for (int i = 0; i < NODES; i++) at += sprintf(at, "v%d = Relu (v%d)\n", i, i + 1);
    at += sprintf(at, "}");
    Err err = {0};
    Model *model = text_parse_model(text, (size_t)(at - text), &test_trap, &err);
    assert_non_null(model);
    assert_int_equal(model->graph->node_count, NODES);
    assert_int_equal(model->graph->undefined.count, 0);
    model_free(model);
    free(text);
}

TEST(test_likely) {
    static const unsigned char protobuf[] = {0x08, 0x08, 0x12, 0x00};
    static const unsigned char text[] = "\n<ir_version: 8>";
    assert_false(text_is_likely(protobuf, sizeof protobuf));
    assert_true(text_is_likely(text, sizeof text - 1));
    assert_true(text_is_likely((const unsigned char *)"# x\ng", 5));
    assert_true(text_is_likely((const unsigned char *)"g (float x) => ()", 17));
    assert_false(text_is_likely((const unsigned char *)"B\x02\x10(:)", 6));
    assert_false(text_is_likely((const unsigned char *)"garbage", 7));
    assert_false(text_is_likely(text, 0));
}
