# SPDX-License-Identifier: Apache-2.0
"""Running plans: what a plan may say, memory, control flow, sharing, folding, what is carried."""

from mutants import Mutant

RUN = "runtime/"

MUTANTS = (
    Mutant("a loop's second state is the new first one", RUN + "exec_control.c",
           "    RtValue *next = ARENA_ARRAY(&exec->scratch, RtValue, loop->carried);\n"
           "    for (uint32_t i = 0; ok && i < loop->carried; i++)\n"
           "        next[i] = exec_graph_output(exec, loop->body, 1 + i);\n"
           "    for (uint32_t i = 0; ok && i < loop->carried; i++) set_input(exec, loop->body, 2 + i, next[i]);\n",
           "    for (uint32_t i = 0; ok && i < loop->carried; i++)\n"
           "        set_input(exec, loop->body, 2 + i, exec_graph_output(exec, loop->body, 1 + i));\n",
           "reuse"),
    Mutant("no slices have size 1 where a size is not known", RUN + "exec_control.c",
           "dims[1 + i] = dim < 0 ? 0 : dim;", "dims[1 + i] = dim < 0 ? 1 : dim;", "sizes"),
    Mutant("runs of small inputs keep the memory of large ones", RUN + "exec_memory.c",
           "if (!size || (has >= size && has / 4 <= size)) return true;",
           "if (!size || has >= size) return true;", "reuse"),
    Mutant("a place is free where no other lies in its first bytes", RUN + "value_store.c",
           "        if (taken[units.word] & units.mask) return false;",
           "        return !(taken[units.word] & units.mask & -units.mask);",
           "reuse"),
    Mutant("a step's result lies where its operand is", RUN + "memory_plan.c",
           "if (blocks[live[i]].last >= step) live[kept++] = live[i];",
           "if (blocks[live[i]].last > step) live[kept++] = live[i];", "memory_plan_test"),
    Mutant("a step's result lies where one of many operands is", RUN + "memory_plan.c",
           "for (; step < block->first; step++)", "for (; step <= block->first; step++)",
           "memory_plan_test"),
    Mutant("a kernel works in place while others hold the tensor", RUN + "exec_kernel.c",
           "if (tensor->refs != 1 || !tensor->buffer || tensor->buffer->refs != 1) return false;",
           "if (!tensor->buffer || tensor->buffer->refs != 1) return false;",
           "reuse"),
    Mutant("a span's end wraps", RUN + "plan_check.c",
           "return (uint64_t)span.first + span.count <= c->counts[kind];",
           "return span.first + span.count <= c->counts[kind];", "plan_test replay_plan*"),
    Mutant("constants may lie anywhere", RUN + "plan_check.c",
           "return at % PLAN_ALIGN == 0 && at <= c->counts[PLAN_DATA]", "return at <= c->counts[PLAN_DATA]",
           "plan_test replay_plan*", sanitizer=True),
    Mutant("a choice may be there twice", RUN + "plan_check.c",
           "(choice->step == last->step && choice->shapes > last->shapes);",
           "(choice->step == last->step && choice->shapes >= last->shapes);", "plan_tune_test plan_test"),
    Mutant("a cache grows by itself", RUN + "carry.c",
           "step->inputs[0] == from && step->inputs[1] != from &&", "step->inputs[0] == from &&",
           "carry_test"),
    Mutant("a cut cache has no room any more", RUN + "carry.c",
           "    cut->tensor.room = room_of(&tensor->tensor, axis);", "    cut->tensor.room = length;",
           "carry_test carry_suite decoders"),
    Mutant("a Dropout that trains is computed once for all", RUN + "plan_fold.c",
           "!op_record_has(record, OP_RANDOM) && !op_record_has(record, OP_RANDOM_TRAINING) &&",
           "!op_record_has(record, OP_RANDOM) &&", "plan_fold_test"),
    Mutant("defaults of inputs are not read by anybody", RUN + "plan_fold.c",
           "        each_operand(b, graph->defaults, visit, numbers);\n", "",
           "plan_fold_test"),
    Mutant("steps are executed apart from those that read what they give", RUN + "plan_fold.c",
           "if (i >= reach && i + 1 - first >= least)", "if (i + 1 - first >= least)", "plan_fold_test"),
    Mutant("an axis is dropped though lengths are given", RUN + "exec_sequence.c",
           'bool single = !exec_input(exec, step, 1) && exec_int_attr(step, "keepdims", 1) == 0;',
           'bool single = exec_int_attr(step, "keepdims", 1) == 0;', "reuse"),
    Mutant("weights in 16 bit are shared though memory is to be small", RUN + "step_share.c",
           "(exec->options.small && !s->step->device && step_stored_narrow(s, job->input)))",
           "(exec->options.small && s->step->device && step_stored_narrow(s, job->input)))",
           "stored_recurrent_test"),
)
