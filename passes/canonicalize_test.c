// SPDX-License-Identifier: Apache-2.0
/* canonicalize on what infer-dtypes would refuse: nodes whose operator has no definition at the version
 * that is imported, as nodes of plans may be. What it does to other models is in testdata/golden. */
#include "test_model.h"

#include "passes.h"

/* Before opset 8 there is no Expand, whose record says that it keeps what it reads in order all the same. */
TEST(test_nodes_without_a_definition_stay) {
    Model *model = test_model("<ir_version: 10, opset_import: [\"\" : 7]>\n"
                              "g (float[1,3] x) => (float[2,3] y)\n"
                              "<int64[2] sizes = {2, 3}, int64[1] flat = {6}, float[2,3] a,\n"
                              " float[6] b, float[2,3] c>\n"
                              "{\n"
                              "    a = Expand (x, sizes)\n"
                              "    b = Reshape (a, flat)\n"
                              "    c = Reshape (b, sizes)\n"
                              "    y = Relu (c)\n"
                              "}\n");
    PassCounts counts = {0};
    Err err = {0};
    PassCtx ctx = {.model = model, .scratch = &test_arena, .counts = &counts};
    if (!canonicalize_pass.run(&ctx, NULL, &err)) fail_msg("%s", err.what);
    const Node *expand = test_node(model->graph, "a");
    assert_true(sym_equals(expand->op_type, "Expand"));
    assert_ptr_equal(test_node(model->graph, "y")->inputs[0].value, expand->outputs[0]);
    assert_in_range(counts.rewrites, 1, 9);
    test_verify(model);
    model_free(model);
}
