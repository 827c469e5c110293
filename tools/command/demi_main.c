// SPDX-License-Identifier: Apache-2.0
/* The demi command: finds the subcommand, runs it, and turns how it ended into an exit code.
 *
 * Signals that end a program remove temporary files first and then end it as they always do.
 * SIGBUS, of a mapped file that became shorter, ends it with exit code 3. SIGPIPE and SIGXFSZ are
 * ignored, so that a write fails instead; where the reader of standard output has gone away, its text is
 * lost, and the exit code is what it would have been.
 * Running out of memory anywhere arrives here.
 */
#define _DEFAULT_SOURCE /* and mallopt */
#include <fcntl.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "commands.h"
#include "console.h"
#include "help.h"
#include "outfile.h"
#include "outputs.h"
#include "progress_line.h"
#include "text_distance.h"

static const Command *const commands[] = {
    &command_convert, &command_simplify,      &command_opt,   &command_show,  &command_check,
    &command_diff,    &command_compile,       &command_run,   &command_bench, &command_compare,
    &command_search,  &command_make_training, &command_train, &command_help,
};

static const CommandTable table = {commands, sizeof commands / sizeof commands[0]};

/* While files are being put in place the signal is kept, and raised again when they are. */
static void end_by_signal(int number) {
    if (!outfile_end_by(number)) return;
    progress_line_leave();
    signal(number, SIG_DFL);
    raise(number);
}

static void end_by_fault(int number) {
    outfile_remove_all();
    signal(number, SIG_DFL);
    raise(number);
}

/* A plan is mapped: pages of a file that became shorter meanwhile, or of a failing disk, can't be
 * had. Several threads may find out at once: the first ends them all. */
static void end_by_bad_map(int number) {
    static const char text[] = "demi: a file in use was truncated, or cannot be read\n";
    static atomic_flag ending = ATOMIC_FLAG_INIT;
    (void)number;
    while (atomic_flag_test_and_set(&ending)) pause();
    progress_line_leave();
    outfile_remove_all();
    if (write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(ERR_ENV);
    _exit(ERR_ENV);
}

static bool is_one_of(int number, const int *list) {
    while (*list && *list != number) list++;
    return *list != 0;
}

/* All that end a program, real-time ones too. What the caller ignores (nohup), or who was there
 * before us handles (a sanitizer), stays as it is. */
static void set_signals(void) {
    static const int harmless[] = {SIGCHLD, SIGCONT, SIGURG,  SIGWINCH, SIGSTOP,
                                   SIGTSTP, SIGTTIN, SIGTTOU, SIGKILL,  0};
    static const int faults[] = {SIGSEGV, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS, 0};
    signal(SIGBUS, end_by_bad_map);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    for (int number = 1; number <= SIGRTMAX; number++) {
        struct sigaction old;
        struct sigaction action = {.sa_handler = end_by_signal, .sa_flags = SA_RESTART};
        if (is_one_of(number, harmless) || sigaction(number, NULL, &old) != 0) continue;
        if (old.sa_handler != SIG_DFL) continue;
        if (is_one_of(number, faults)) action.sa_handler = end_by_fault;
        sigfillset(&action.sa_mask); /* one ends it */
        sigaction(number, &action, NULL);
    }
}

/* What other tools call what demi does. */
static const char *known_elsewhere(const char *word) {
    static const char *const words[][2] = {
        {"quantize", "convert --to int8"},
        {"quantize", "convert --to int8"},
        {"optimize", "simplify"},
        {"optimize", "simplify"},
        {"slim", "simplify"},
        {"inspect", "show"},
        {"info", "show"},
        {"print", "show --text"},
        {"validate", "check"},
        {"verify", "convert --verify"},
        {"infer", "run"},
        {"benchmark", "bench"},
        {"profile", "bench"},
        {"upgrade", "convert --opset"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], word) == 0) return words[i][1];
    return NULL;
}

static bool unknown_command(const char *word, Err *err) {
    bool option = word[0] == '-';
    err_set(err, ERR_USAGE, "unknown %s '%s'", option ? "option" : "command", word);
    const char *elsewhere = known_elsewhere(word);
    NearestName nearest = nearest_name_of(word);
    for (size_t i = 0; !option && !elsewhere && i < table.count; i++)
        nearest_name_try(&nearest, commands[i]->name);
    if (elsewhere)
        err_hint(err, "use 'demi %s'", elsewhere);
    else if (nearest.best)
        err_hint(err, "did you mean 'demi %s'?", nearest.best);
    else
        err_hint(err, "'demi --help' lists the commands");
    return false;
}

static bool place_weights(Program *program, const Parsed *parsed, Err *err) {
    if (!parsed_knows(parsed, "one-file")) return true;
    return outputs_place(program, parsed_flag(parsed, "one-file"), parsed_flag(parsed, "external"),
                         parsed_value(parsed, "data-name"), err);
}

/* On a terminal it says what it is at. */
static bool run_shown(const Command *command, Program *program, Err *err) {
    const Parsed *parsed = program->parsed;
    const bool quiet = parsed_knows(parsed, "quiet") && parsed_flag(parsed, "quiet");
    if (!quiet) progress_line_start(program->started);
    return command->run(program, parsed, err);
}

static bool run_command(Program *program, int count, char **words, Err *err) {
    const char *word = words[0];
    const Command *command = command_find(&table, word);
    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        printf("demi %s\n", demi_version());
        return true;
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) {
        help_print_all(&table, stdout);
        return true;
    }
    if (!command) return unknown_command(word, err);
    if (command->shares && !ranks_begin(&program->ranks, err)) return false;
    Parsed *parsed = ARENA_NEW(program->arena, Parsed);
    if (!options_parse(command, count - 1, words + 1, program->arena, parsed, err)) return false;
    program->parsed = parsed;
    program->outputs = outputs_new(program);
    if (!parsed_flag(parsed, "help"))
        return place_weights(program, parsed, err) && run_shown(command, program, err);
    if (parsed->brief)
        help_print_brief(command, stdout);
    else
        help_print_command(command, stdout);
    return true;
}

/* The exit code; of several processes' errors, one is printed. */
static int end(Program *program, bool color, const Err *err) {
    const bool failed = err->code != ERR_NONE;
    int code = !failed ? program->exit_code : err->code == ERR_CANCELLED ? ERR_ENV : (int)err->code;
    const bool tells = ranks_end(&program->ranks, failed, &code);
    if (failed && tells) console_print_error(color, err);
    ranks_leave(&program->ranks);
    return code;
}

/* What the program ends with; the arena and err lie in main's frame, which outlives the jump. */
static int run(Program *program, MemTrap *trap, int count, char **words) {
    Err err = {.code = ERR_NONE}, written = {.code = ERR_NONE};
    Err *volatile error = &err;
    if (setjmp(trap->env))
        err_out_of_memory(error);
    else
        run_command(program, count, words, error);
    progress_line_end();
    bool flushed = console_finish(program, &written);
    bool color = console_has_color(program, stderr); /* the words end with the arena */
    arena_free(program->arena);
    outfile_remove_all(); /* of arenas that a jump has left behind */
    if (!flushed) err = written;
    if (outfile_is_gone(&err)) { /* a model's reader: it has what it wanted */
        program->exit_code = 0;
        err.code = ERR_NONE;
    }
    return end(program, color, &err);
}

/* What a pass gave back is what the next one asks for. The GNU allocator would return it to the
 * system meanwhile and fault it in again, page by page: a twentieth of the time of a conversion. */
static void keep_memory(void) {
#ifdef M_TRIM_THRESHOLD
    enum { LARGE = 32 << 20, STEP = 4 << 20, MOST = 1 << 30 };
    mallopt(M_MMAP_THRESHOLD, LARGE); /* the largest there is: beyond, blocks are mapped */
    mallopt(M_TRIM_THRESHOLD, MOST);
    mallopt(M_TOP_PAD, STEP);
#endif
}

/* A file that is opened must not become the standard output that the caller has closed, and get the
 * text that is printed: what is closed is made something that can't be written, or read. */
static void fill_standard_streams(void) {
    static const int unusable[] = {O_WRONLY, O_RDONLY, O_WRONLY};
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", unusable[fd]) < 0) _exit(ERR_ENV);
}

/* Every file that 'run --output-dir' writes is open until all are written. */
static void allow_many_files(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

int main(int argc, char **argv) {
    MemTrap trap;
    Arena arena;
    fill_standard_streams();
    keep_memory();
    allow_many_files();
    set_signals();
    arena_init(&arena, &trap);
    Program program = {
        .arena = &arena, .commands = &table, .started = console_seconds(), .ranks = {.parts = 1}};
    if (argc > 1) return run(&program, &trap, argc - 1, argv + 1);
    help_print_all(&table, stderr);
    return ERR_USAGE;
}
