// SPDX-License-Identifier: Apache-2.0
/* A list of placed plans under one lock; see plan_devices.h. */
#include "plan_devices.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>

#include "step_place.h"

typedef struct PlanDevice {
    struct PlanDevice *next;
    const DeviceKind *kind;
    unsigned number;
    LoadedPlan loaded;
    Arena arena;
} PlanDevice;

struct PlanDevices {
    pthread_mutex_t lock;
    PlanDevice *first;
};

PlanDevices *plan_devices_new(void) {
    PlanDevices *devices = calloc(1, sizeof *devices);
    if (devices && pthread_mutex_init(&devices->lock, NULL) != 0) {
        free(devices);
        return NULL;
    }
    return devices;
}

static void end(PlanDevice *placed) {
    plan_share_free(placed->loaded.remote_share);
    arena_free(&placed->arena);
    if (placed->loaded.device) placed->kind->close(placed->loaded.device);
    free(placed);
}

void plan_devices_free(PlanDevices *devices) {
    if (!devices) return;
    for (PlanDevice *placed = devices->first, *next; placed; placed = next) {
        next = placed->next;
        end(placed);
    }
    pthread_mutex_destroy(&devices->lock);
    free(devices);
}

static bool fill(PlanDevice *placed, const LoadedPlan *plan, Err *err) {
    MemTrap trap;
    if (setjmp(trap.env)) return err_out_of_memory(err);
    arena_init(&placed->arena, &trap);
    StepPlacement placement;
    step_place(&plan->plan, placed->kind, &placement, &placed->arena);
    LoadedPlan *loaded = &placed->loaded;
    loaded->plan = placement.plan;
    loaded->changes = plan->changes;
    loaded->file = plan->file;
    loaded->remote = placement.remote;
    loaded->reasons = placement.reasons;
    loaded->repeats = placement.repeats;
    loaded->here = plan;
    loaded->origins = placement.origins;
    if (!plan_load(loaded, &placed->arena, err)) return false;
    loaded->share = plan->share; /* values that both know have the same numbers */
    loaded->remote_share = plan_share_new(loaded->device, loaded->plan.value_count);
    return loaded->remote_share || err_out_of_memory(err);
}

static PlanDevice *make(const LoadedPlan *plan, const DeviceKind *kind, unsigned number, Err *err) {
    PlanDevice *placed = calloc(1, sizeof *placed);
    if (!placed) {
        err_out_of_memory(err);
        return NULL;
    }
    placed->kind = kind;
    placed->number = number;
    placed->loaded.device = kind->open(number, err);
    if (placed->loaded.device && fill(placed, plan, err)) return placed;
    end(placed);
    return NULL;
}

const LoadedPlan *plan_devices_get(PlanDevices *devices, const LoadedPlan *plan, const char *name,
                                   Err *err) {
    unsigned number;
    const DeviceKind *kind = device_kind(name, &number, err);
    if (!kind) return NULL;
    pthread_mutex_lock(&devices->lock);
    PlanDevice *placed = devices->first;
    while (placed && (placed->kind != kind || placed->number != number)) placed = placed->next;
    if (!placed && (placed = make(plan, kind, number, err))) {
        placed->next = devices->first;
        devices->first = placed;
    }
    pthread_mutex_unlock(&devices->lock);
    return placed ? &placed->loaded : NULL;
}
