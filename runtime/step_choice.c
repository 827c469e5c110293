// SPDX-License-Identifier: Apache-2.0
/* Choices of steps; see step_choice.h. */
#include "step_choice.h"

#include "hash64.h"

static void add_operands(Hash64 *hash, const KernelTensor *tensors, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const KernelTensor *t = &tensors[i];
        const uint32_t head[] = {t->present, t->present ? (uint32_t)t->dtype : 0,
                                 t->present ? t->rank : 0};
        hash64_update(hash, head, sizeof head);
        if (t->present && t->rank) hash64_update(hash, t->dims, t->rank * sizeof *t->dims);
    }
}

uint64_t step_choice_shapes(const KernelCall *call) {
    Hash64 hash;
    hash64_init(&hash, call->input_count);
    add_operands(&hash, call->inputs, call->input_count);
    add_operands(&hash, call->outputs, call->output_count);
    return hash64_final(&hash);
}

StepWay step_choice_way(const Exec *exec, const LoadedStep *step, const KernelCall *call) {
    const StepChooser *chooser = exec->options.chooser;
    const bool packs =
        exec->options.notes; /* of sizes that may be open: those of the first choice */
    if (chooser) return chooser->choose(chooser->data, step, call);
    if (!step->choice_count || !(packs || exec->options.tuned)) return (StepWay){0};
    const uint64_t shapes = packs ? step->choices->shapes : step_choice_shapes(call);
    for (uint32_t i = 0; i < step->choice_count; i++) {
        const PlanChoice *choice = &step->choices[i];
        if (choice->shapes == shapes)
            return (StepWay){choice->row, choice->choice, choice->alone, 0};
    }
    return (StepWay){0};
}

bool step_choice_fits(const LoadedStep *step, const PlanChoice *choice) {
    if (step->exec || choice->row > step->row_count) return false;
    if (!choice->row) return !choice->choice;
    const KernelPrepare *prepare = step->rows[choice->row - 1].prepare;
    return choice->choice <= (prepare ? prepare->choices : 0);
}
