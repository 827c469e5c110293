// SPDX-License-Identifier: Apache-2.0
/* demi show of a plan: checked as the runtime checks it, then printed. The file is mapped, since
 * most of it are weights, of which little is shown. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plan.h"
#include "show_model.h"

typedef struct Map {
    void *bytes;
    size_t size;
} Map;

static void unmap(void *data) {
    Map *map = data;
    munmap(map->bytes, map->size);
}

static bool map_file(Arena *arena, const char *path, Map **map, Err *err) {
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return err_errno(err, errno, "can't be opened");
    bool ok = fstat(fd, &status) == 0 && status.st_size > 0;
    void *bytes = MAP_FAILED;
    if (ok) bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (bytes == MAP_FAILED) err_errno(err, ok ? errno : EIO, "can't be mapped");
    close(fd);
    if (bytes == MAP_FAILED) return false;
    *map = ARENA_NEW(arena, Map);
    **map = (Map){bytes, (size_t)status.st_size};
    arena_defer(arena, unmap, *map);
    return true;
}

static void write_text(void *program, const char *text, size_t size) {
    console_write(program, text, size);
}

bool show_plan(Program *program, const char *path, Err *err) {
    Map *map = NULL;
    Plan plan;
    if (!map_file(program->arena, path, &map, err) ||
        !plan_check(&plan, map->bytes, map->size, program->arena, err))
        return false;
    PlanSink sink = {write_text, program};
    plan_show(&plan, &sink);
    return true;
}
