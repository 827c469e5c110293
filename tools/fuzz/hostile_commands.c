// SPDX-License-Identifier: Apache-2.0
/* See hostile_commands.h. */
#define _GNU_SOURCE /* memfd_create */
#include "hostile_commands.h"

#include "outputs.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "console.h"
#include "outfile.h"

static const Command *const commands[] = {
    &command_convert, &command_opt, &command_show,  &command_check,   &command_diff,
    &command_compile, &command_run, &command_bench, &command_compare, &command_help,
};
static const CommandTable table = {commands, sizeof commands / sizeof commands[0]};

/* The sanitizers', where they are linked. */
__attribute__((weak)) void __sanitizer_set_report_fd(void *fd);

static FILE *say;
static int files[2] = {-1, -1};

void hostile_commands_begin(void) {
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC), kept = dup(STDOUT_FILENO);
    say = kept >= 0 ? fdopen(kept, "w") : NULL;
    if (!say || nowhere < 0 || dup2(nowhere, STDOUT_FILENO) < 0 || dup2(nowhere, STDERR_FILENO) < 0)
        abort();
    close(nowhere);
    if (__sanitizer_set_report_fd) __sanitizer_set_report_fd((void *)(intptr_t)fileno(say));
    signal(SIGPIPE, SIG_IGN);
}

void hostile_say(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(say, format, args);
    va_end(args);
    fflush(say);
}

static const char *path_of(unsigned slot) {
    static char paths[2][64];
    snprintf(paths[slot], sizeof paths[slot], "/proc/self/fd/%d", files[slot]);
    return paths[slot];
}

const char *hostile_commands_file(unsigned slot, const void *bytes, size_t size) {
    const char *at = bytes;
    if (files[slot] >= 0) close(files[slot]);
    files[slot] = memfd_create("model.onnx", 0); /* a program of our own opens it, too */
    if (files[slot] < 0) abort();
    for (size_t done = 0; done < size;) {
        ssize_t put = write(files[slot], at + done, size - done);
        if (put <= 0) abort();
        done += (size_t)put;
    }
    return path_of(slot);
}

/* The words of a line, in `arena`. */
static int split(Arena *arena, const char *line, char **words) {
    int count = 0;
    char *text = arena_printf(arena, "%s", line), *rest = NULL;
    for (char *word = strtok_r(text, " ", &rest); word && count < HOSTILE_WORDS;
         word = strtok_r(NULL, " ", &rest)) {
        bool slot = word[0] == '%' && (word[1] == '0' || word[1] == '1') && !word[2];
        words[count++] = slot ? arena_printf(arena, "%s", path_of(word[1] == '1')) : word;
    }
    return count;
}

static bool run_words(Program *program, const char *line, Err *err) {
    char *words[HOSTILE_WORDS];
    Parsed parsed;
    int count = split(program->arena, line, words);
    const Command *command = command_find(&table, words[0]);
    if (!command) return err_set(err, ERR_USAGE, "no such command: %s", words[0]);
    if (!options_parse(command, count - 1, words + 1, program->arena, &parsed, err)) return false;
    program->parsed = &parsed;
    program->outputs = outputs_new(program);
    return command->run(program, &parsed, err);
}

int hostile_program(const char *demi, const char *line) {
    MemTrap trap;
    Arena arena;
    char *words[HOSTILE_WORDS + 2] = {NULL};
    int status = 0;
    if (setjmp(trap.env)) return -1;
    arena_init(&arena, &trap);
    words[0] = arena_printf(&arena, "%s", demi);
    split(&arena, line, words + 1);
    pid_t child = fork();
    if (child == 0) {
        execv(demi, words);
        _exit(126);
    }
    bool ended = child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status);
    arena_free(&arena);
    return ended ? WEXITSTATUS(status) : -1;
}

int hostile_command(const char *line, Err *err) {
    MemTrap trap;
    Arena arena;
    Err written = {.code = ERR_NONE};
    *err = (Err){.code = ERR_NONE};
    arena_init(&arena, &trap);
    Program program = {.arena = &arena, .commands = &table, .started = console_seconds()};
    if (setjmp(trap.env))
        err_out_of_memory(err);
    else
        run_words(&program, line, err);
    console_progress_end(&program);
    console_finish(&program, &written);
    arena_free(&arena);
    return err->code == ERR_NONE ? program.exit_code : (int)err->code;
}
