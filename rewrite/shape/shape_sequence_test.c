// SPDX-License-Identifier: Apache-2.0
/* Sequences, optionals, strings. */
#include "shape_case_test.h"

TEST(test_sequence) {
    static const ShapeCase cases[] = {
        {"SequenceConstruct", 11, "", "2,N | 2,3", "@2,?"},
        {"SequenceConstruct", 11, "", "2,N | 2", "@*"},
        {"SequenceEmpty", 11, "", "", "@*"},
        {"SequenceInsert", 11, "", "@2,N | 2,N", "@2,N"},
        {"SequenceAt", 11, "", "@2,N | .", "2,N"},
        {"SequenceErase", 11, "", "@2,N", "@2,N"},
        {"SequenceLength", 11, "", "@2", "."},
        {"ConcatFromSequence", 11, "axis=0", "@2,N", "?,N"},
        {"ConcatFromSequence", 11, "axis=-1;new_axis=1", "@2,N", "2,N,?"},
        {"ConcatFromSequence", 11, "axis=2", "@2,N", "!"},
        {"SplitToSequence", 11, "", "6,N", "@1,N"},
        {"SplitToSequence", 11, "keepdims=0", "6,N", "@N"},
        {"SplitToSequence", 11, "", "6,N | #2", "@2,N"},
        {"SplitToSequence", 11, "", "6,N | #4", "@?,N"},
        {"SplitToSequence", 11, "", "6,N | =3,3", "@3,N"},
        {"Optional", 15, "", "2,N", "@2,N"},
        {"OptionalGetElement", 15, "", "@2,N", "2,N"},
        {"OptionalHasElement", 15, "", "@2,N", "."},
    };
    CASE_RUN(cases);
}

TEST(test_strings) {
    static const ShapeCase cases[] = {
        {"StringSplit", 20, "", "N", "N,? | N"},
        {"StringNormalizer", 10, "", "1,5", "1,?"},
        {"TfIdfVectorizer", 9, "ngram_indexes=0,4,2", "N,9", "N,5"},
        {"TfIdfVectorizer", 9, "ngram_indexes=9223372036854775807", "9", "?"},
        {"StringConcat", 20, "", "2,1 | 3", "2,3"},
        {"ImageDecoder", 20, "", "N", "?,?,?"},
    };
    CASE_RUN(cases);
}

TEST(test_unknown) {
    static const ShapeCase cases[] = {
        {"ai.onnx.ml:ZipMap", 1, "", "2,3", "*"},
        {"If", 13, "", ".", "*"},
    };
    CASE_RUN(cases);
}
