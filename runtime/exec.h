// SPDX-License-Identifier: Apache-2.0
/* Running a plan: what the executor's files share.
 *
 * A LoadedPlan is a checked plan with everything looked up that does not depend on data: kernels,
 * attribute structs, when a value is read last. It is immutable and shared. An Exec is one
 * context's state and belongs to one thread: what it found out in one run (step_specialization.h,
 * exec_memory.h) is there for the next. Steps run in order; a step that holds graphs (If, Loop,
 * Scan, SequenceMap) runs them by exec_graph.
 */
#ifndef DEMI_EXEC_H
#define DEMI_EXEC_H

#include <stdatomic.h>

#include "device.h"
#include "kernel.h"
#include "plan.h"
#include "plan_file.h"
#include "plan_share.h"
#include "shape.h"
#include "value_store.h"

typedef struct Exec Exec;
typedef struct LoadedStep LoadedStep;

/* An operator that handles whole values rather than tensors' elements. */
typedef bool (*ExecFunction)(Exec *exec, const LoadedStep *step);

struct LoadedStep {
    const PlanStep *plan;
    const char *op, *name, *domain; /* for messages and profiles */
    int64_t opset;
    ExecFunction exec;     /* else kernels */
    const char *types;     /* kernel_signature_find's */
    const KernelRow *rows; /* [row_count] */
    size_t row_count;
    const ShapeRow *shape;
    const void *shape_attrs, *kernel_attrs;
    const PlainAttr *attrs;           /* [plan->attrs.count] */
    const uint32_t *inputs, *outputs; /* value numbers, PLAN_NONE where omitted */
    const bool *constant, *ends; /* [inputs]: it is a constant; nobody reads it after this step */
    const uint32_t *varying;     /* [varying_count]: inputs that are neither constant nor omitted */
    uint32_t varying_count;
    const uint32_t *dead; /* [dead_count]: values that nobody reads after this step */
    uint32_t dead_count;
    const PlanChoice *choices; /* [choice_count]: the plan's for this step */
    uint32_t choice_count;
    bool unread;    /* output 0 is the main graph's, and no step reads it */
    bool device;    /* it runs on the plan's device: rows are that one's, and kernels or copies */
    uint8_t reason; /* a PlaceReason (step_place.h), where the plan has a device */
};

typedef struct LoadedPlan {
    Plan plan;
    bool changes; /* DATA may become anything at any time: what indexes by it has its own copy */
    const PlanFile *file;    /* where the plan lies; NULL: in the caller's memory */
    LoadedStep *steps;       /* [plan.step_count] */
    KernelTensor *constants; /* [plan.value_count]; not present where a value is none. In the type
                                that they are stored in, which may be another than that of the value
                                where kernels alone read it (step_specialization.c) */
    const WeightLayout *
        *layouts;            /* [plan.value_count]: how a constant lies in DATA whose elements are
                                     nowhere else (its data is NULL): kernels alone read it. NULL of
                                     others */
    const PlanPack **beside; /* [plan.value_count]: what a constant becomes that lies beside it, or
                                NULL */
    bool *kept;              /* [plan.value_count]: a graph's output, which steps do not drop */
    uint32_t *last;   /* [plan.value_count]: the step after which it is dropped; of those that
                         are not, plan.step_count */
    PlanShare *share; /* what contexts have made of constants, the one thing that changes, behind a
                            lock; NULL: nothing is shared */
    PlanShare *remote_share; /* the same in the memory of `device`; NULL without one */
    Device *device;          /* that steps were placed on (step_place.h); NULL: none */
    const bool *remote;      /* [plan.value_count]: the value lives there; NULL without a device */
    const uint8_t *reasons;  /* [plan.step_count]: why steps run where they do; likewise */
    bool repeats;            /* the device's work of a run depends on sizes alone */
    const struct LoadedPlan *here; /* the plan as the processor has it; NULL without a device */
    const uint32_t *origins;       /* [plan.step_count]: which of its steps each one is; likewise */
} LoadedPlan;

/* Looks everything up, in `arena`. ERR_MODEL naming the first operator that has no kernel. */
bool plan_load(LoadedPlan *loaded, Arena *arena, Err *err);

typedef struct StepSpecialization StepSpecialization;
typedef struct StepCall StepCall;
typedef struct ShapeSet ShapeSet;
typedef struct PlaceMap PlaceMap;

/* Layouts that kernels want of a step's constants, for plans that are being made. */
typedef struct LayoutNote {
    uint32_t input;
    WeightLayout layout;
} LayoutNote;
typedef struct LayoutNotes {
    IsaSet cpu; /* of the machine that weights are laid out for */
    uint32_t count;
    LayoutNote items[4]; /* the first of them */
} LayoutNotes;

/* How a step's form is to be made; all 0: by the rules of its rows. */
typedef struct StepWay {
    uint8_t row, choice, alone; /* PlanChoice's */
    uint32_t kind;              /* the chooser's own */
} StepWay;

/* Who says so, instead of the plan: `call` has the operands, without a row. */
typedef struct StepChooser {
    StepWay (*choose)(void *data, const LoadedStep *step, const KernelCall *call);
    void *data;
} StepChooser;

/* What the caller says, between runs. */
typedef struct ExecOptions {
    Workers *workers; /* what kernels compute with; NULL: the caller's thread alone */
    KernelProvider provider;
    bool faithful;       /* the plan's numerics, which exec_init sets */
    bool small;          /* constants stay as they are stored */
    bool keeps_values;   /* no step works in place: the caller, or `after`, reads values that end */
    uint64_t step_limit; /* most there may be in a run, UINT64_MAX for any */
    RunEnd *end;         /* what ends a run early; NULL: nothing does */
    LayoutNotes *notes;  /* not NULL: forms are made, and nothing runs or reads large constants */
    bool tuned;          /* forms are made as the plan's choices say */
    const StepChooser *chooser; /* or as this one does; may be NULL */
    /* Called after each step, before values that end with it go; may be NULL. */
    void (*after)(void *data, const LoadedStep *step, double start, double seconds);
    void *after_data;
} ExecOptions;

/* How far a run is: the caller sets it before one, then it is exec.c's and exec_kernel.c's. */
typedef struct ExecProgress {
    uint64_t seed;          /* of the next kernel step */
    uint64_t steps;         /* taken in this run */
    unsigned depth;         /* of nested graphs */
    const LoadedStep *step; /* that began last */
    const KernelRow *row;   /* the kernel that ran last */
} ExecProgress;

/* What strings made in this run point to; exec_kernel.c's. */
typedef struct ExecText {
    Buffer *newest; /* the others by sibling */
    uint64_t used;  /* bytes of it */
} ExecText;

/* The kernel step in progress, for when it is jumped out of: `making` is step_specialization.c's, `running`
 * exec_kernel.c's, the workspace step_call.c's. */
typedef struct ExecCall {
    StepCall *making;
    StepSpecialization *running;
    uint32_t result_count; /* of `running` */
    Buffer *workspace;     /* by sibling */
} ExecCall;

/* What a context knows of a step. */
typedef struct StepMemo {
    StepSpecialization *forms; /* the one used last first */
    uint8_t contents;          /* a FormContents: what its shape was once found to depend on */
} StepMemo;

/* What is kept of steps from run to run; step_specialization.c's. */
typedef struct ExecForms {
    StepMemo *memos; /* [step_count] */
    uint64_t shared; /* bytes of the plan's share that this context uses, counted in its pool */
    Buffer *counted; /* a byte for each entry of the share, set where it is among them; or NULL */
} ExecForms;

/* Where values of the main graph lie; exec_memory.c's. */
typedef struct ExecMemory {
    ShapeSet *sets, *set;  /* the one used last first; that of this run, NULL between runs */
    PlaceMap *map, *guess; /* where values lie in this run, NULL: anywhere; and where they may in
                              the first one of any shapes, NULL: not asked yet */
    Buffer *placed;        /* [value_count]; NULL: nothing had a place yet */
    struct {
        char *at;
        uint64_t size;
        Buffer *taken; /* what the pool's placed.taken points to */
    } pieces[2];       /* of the host's memory, and of the device's */
} ExecMemory;

/* How the processor runs steps whose operands no kernel of the device takes (exec_here.h): by a second
 * executor, which is why this one does not call it by name. */
typedef struct DeclinedSteps {
    bool (*run)(Exec *exec, const LoadedStep *step, uint64_t seed); /* false with the error set */
    void (*free)(Exec *exec); /* ends what the context has for it */
} DeclinedSteps;

/* The plan's device, for one context; exec_device.c's. */
typedef struct ExecDevice {
    DeviceQueue *queue; /* NULL: there is none */
    Pool pool;          /* of its memory */
    bool pending;       /* copies to the host are under way */
    bool flies;         /* a run's work was not waited for */
    bool lags;          /* it could not be waited for: copies may still be under way */
    bool steps;         /* nothing is recorded: every run goes step by step */
    const DeclinedSteps *declined;
    struct ExecHere *here;       /* what steps that it declines run in; NULL: none did yet */
    struct DeviceRecord *record; /* what is being recorded; NULL: nothing is */
    const void **given;   /* [value_count]: where the caller has an input of the main graph on the
                                    device; NULL: it has none there, and where the list is */
    uint64_t moves, last; /* how often the caller's memory became another; in the last run */
} ExecDevice;

/* What goes from run to run (carry.h); NULL where nothing does. */
typedef struct ExecCarry {
    const uint8_t
        *grows; /* [step_count]: bit i where output i is what the last run gave, and more */
} ExecCarry;

/* Whose memory outputs of the main graph lie in (context_outputs.c), by value; NULL where no output
 * has any. */
typedef struct ExecOwned {
    const bool *lasting; /* [value_count]: it outlives the run, so it has memory of its own */
    const struct OwnMemory {
        void *data; /* the caller's; NULL: none */
        uint64_t size;
    } * bound; /* [value_count] */
    const struct OwnMemory
        *there; /* [value_count]: the same of the device's memory; NULL likewise */
} ExecOwned;

/* Who takes part in runs of the main graph (replay.h). False from `begin` and `after`, with the error
 * set, ends the run. */
typedef struct ExecAgain {
    void *data;
    bool (*begin)(void *data);                          /* inputs are set */
    bool (*before)(void *data, const LoadedStep *step); /* false: the step is skipped */
    bool (*after)(void *data, const LoadedStep *step);
} ExecAgain;

struct Exec {
    const LoadedPlan *loaded;
    RtValue *values; /* [value_count] */
    Pool pool;
    ExecDevice device;
    Arena scratch; /* emptied after every step, of inner graphs too */
    Err *err;
    ExecOptions options;
    ExecProgress progress;
    ExecText text;
    ExecCall call;
    ExecForms forms;
    ExecMemory memory;
    ExecCarry carry;
    ExecOwned owned;
    const ExecAgain *again; /* NULL but in such runs */
};

/* The memory that a value's elements lie in. */
static inline bool exec_is_remote(const Exec *exec, uint32_t value) {
    return exec->loaded->remote && exec->loaded->remote[value];
}
static inline Pool *exec_pool(Exec *exec, uint32_t value) {
    return exec_is_remote(exec, value) ? &exec->device.pool : &exec->pool;
}

/* Makes a context's state: tables in `arena`, where `exec` lies or which outlives it, and constants
 * set. The rest of the pool's budget, the options (no workers, any number of steps) and the seed
 * (0) are the caller's to change, and exec_device_init to be called for a plan that has a device. False
 * with the error set past the budget. */
bool exec_init(Exec *exec, const LoadedPlan *loaded, const PoolFrom *from, Arena *arena, Err *err);
/* Frees what does not lie in that arena. Safe on a zeroed Exec. */
void exec_free(Exec *exec);

/* Seconds of a clock that only runs forward. */
static inline double exec_now(void) {
    return run_end_now();
}

/* Where what runs out of memory, or ends early, jumps to from now on. */
static inline void exec_set_trap(Exec *exec, MemTrap *trap) {
    exec->scratch.trap = trap;
    if (exec->options.end) exec->options.end->trap = trap;
}

/* Runs a graph whose inputs' values are set; its outputs' values are set then, and, of the main graph,
 * there once the device was waited for (exec_device_wait). Each step counts
 * against step_limit and is late past the deadline; a graph without any is as a step, so that no
 * loop can go on for ever. */
bool exec_graph(Exec *exec, uint32_t graph);

/* The operator's ExecFunction, or NULL. */
ExecFunction exec_find(const char *domain, const char *op);

/* ---- for ExecFunctions (exec_step.c) --------------------------------------------------------- */

/* Operand i's value, NULL where it was omitted. */
RtValue *exec_input(Exec *exec, const LoadedStep *step, uint32_t i);
/* Gives output i its value, whose reference it takes over; clears it where nobody wants it. */
void exec_output(Exec *exec, const LoadedStep *step, uint32_t i, RtValue value);
/* Moves graph output i out of the graph: the reference is the caller's. */
RtValue exec_graph_output(Exec *exec, uint32_t graph, uint32_t i);
/* The graph an attribute holds; PLAN_NONE where there is none of that name. */
uint32_t exec_graph_attr(const LoadedStep *step, const char *name);
int64_t exec_int_attr(const LoadedStep *step, const char *name, int64_t otherwise);
/* ERR_MODEL with step and operator. Returns false. */
bool exec_fail(Exec *exec, const LoadedStep *step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Says in the error, if it does not say so yet, which step failed. Returns false. */
bool exec_name_step(Exec *exec, const LoadedStep *step);
/* The tensor of operand i; NULL with the error set where it is none. */
RtTensor *exec_tensor(Exec *exec, const LoadedStep *step, uint32_t i);
/* An integer scalar (or the first element). False with the error set. */
bool exec_scalar(Exec *exec, const LoadedStep *step, const RtTensor *tensor, int64_t *value);
/* Runs the step by its kernels (exec_kernel.c). */
bool exec_kernel(Exec *exec, const LoadedStep *step);
/* Before a run: ends the text of the last one's strings. */
void exec_text_free(Exec *exec);
/* Ends what a kernel step had that was jumped out of. */
void exec_drop_results(Exec *exec);

/* ---- moving slices (exec_slices.c); results have one reference, NULL with the error set ------ */

/* Some slices of a tensor's axis, and whether they lie in the device's memory, as the tensor does. */
typedef struct SliceRange {
    uint32_t axis;
    int64_t start, length;
    bool there;
} SliceRange;
RtTensor *exec_range(Exec *exec, const RtTensor *from, const SliceRange *range);
/* Slice range->start, without the axis. */
RtTensor *exec_take(Exec *exec, const RtTensor *from, const SliceRange *range);

/* Tensors side by side along `axis`: an existing one, or (fresh) a new one. count is at least 1;
 * shapes must agree but along an existing axis. `there` as above. */
typedef struct JoinParts {
    RtTensor *const *parts;
    uint32_t count, axis;
    bool fresh, there;
} JoinParts;
RtTensor *exec_join(Exec *exec, const LoadedStep *step, const JoinParts *join);
/* A tensor without elements of its own, in one of both memories. */
RtTensor *exec_tensor_in(Exec *exec, const KernelTensor *like, bool there);

#endif
