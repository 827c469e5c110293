// SPDX-License-Identifier: Apache-2.0
/* Destinations of every kind, and that whatever goes wrong leaves the old file and no litter. */
#define _GNU_SOURCE
#include "outfile.h"
#include "test_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit_test.h"

typedef struct Fixture {
    char folder[64];
    Err err;
} Fixture;

static int setup(void **state) {
    Fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    test_place(f->folder, sizeof f->folder, "outfile_test.XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    *state = f;
    return 0;
}

static int teardown(void **state) {
    Fixture *f = *state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", f->folder);
    int rc = system(command);
    free(f);
    return rc;
}
TEST_FIXTURE(setup, teardown);

static const char *at(Fixture *f, const char *name) {
    return arena_printf(&test_arena, "%s/%s", f->folder, name);
}

static void put(Fixture *f, const char *name, const char *text) {
    FILE *file = fopen(at(f, name), "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void expect_text(Fixture *f, const char *name, const char *text) {
    char buffer[256] = "";
    FILE *file = fopen(at(f, name), "r");
    assert_non_null(file);
    size_t got = fread(buffer, 1, sizeof buffer - 1, file);
    fclose(file);
    buffer[got] = '\0';
    assert_string_equal(buffer, text);
}

/* Number of entries of the folder, hidden ones too. */
static int entries(Fixture *f) {
    DIR *dir = opendir(f->folder);
    assert_non_null(dir);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) count++;
    closedir(dir);
    return count;
}

static mode_t mode_of(Fixture *f, const char *name) {
    struct stat info;
    assert_int_equal(lstat(at(f, name), &info), 0);
    return info.st_mode;
}

static OutFile *create_ok(Fixture *f, const char *name) {
    OutFile *file = outfile_create(&test_arena, at(f, name), &f->err);
    if (!file) fail_msg("%s", f->err.what);
    return file;
}

static void save(Fixture *f, const char *name, const char *text) {
    OutFile *file = create_ok(f, name);
    assert_true(outfile_write(file, text, strlen(text), &f->err));
    assert_true(outfile_commit(file, &f->err));
}

TEST_WITH(test_new_file, Fixture *f) {
    mode_t old = umask(027);
    save(f, "a", "hello");
    umask(old);
    expect_text(f, "a", "hello");
    assert_int_equal(mode_of(f, "a") & 0777, 0640);
    assert_int_equal(entries(f), 1);
}

TEST_WITH(test_old_mode_is_kept, Fixture *f) {
    put(f, "a", "old");
    assert_int_equal(chmod(at(f, "a"), 0604), 0);
    OutFile *file = create_ok(f, "a");
    assert_true(outfile_write(file, "new", 3, &f->err));
    expect_text(f, "a", "old"); /* until commit */
    assert_true(outfile_commit(file, &f->err));
    expect_text(f, "a", "new");
    assert_int_equal(mode_of(f, "a") & 0777, 0604);
    assert_int_equal(entries(f), 1);
}

TEST_WITH(test_abort_leaves_nothing, Fixture *f) {
    put(f, "a", "old");
    OutFile *file = create_ok(f, "a");
    assert_int_equal(entries(f), 2);
    assert_true(outfile_write(file, "new", 3, &f->err));
    outfile_abort(file);
    assert_int_equal(entries(f), 1);
    create_ok(f, "a");
    arena_free(&test_arena); /* the end of the arena is an abort, too */
    assert_int_equal(entries(f), 1);
    expect_text(f, "a", "old");
}

TEST_WITH(test_symlinks_stay, Fixture *f) {
    assert_int_equal(mkdir(at(f, "real"), 0755), 0);
    put(f, "real/a", "old");
    assert_int_equal(symlink("real/a", at(f, "one")), 0);
    assert_int_equal(symlink(at(f, "one"), at(f, "two")), 0);
    save(f, "two", "new");
    expect_text(f, "real/a", "new");
    assert_true(S_ISLNK(mode_of(f, "one")) && S_ISLNK(mode_of(f, "two")));
    assert_true(S_ISREG(mode_of(f, "real/a")));

    assert_int_equal(symlink("real/missing", at(f, "dangling")), 0);
    save(f, "dangling", "made");
    expect_text(f, "real/missing", "made");
    assert_true(S_ISLNK(mode_of(f, "dangling")));

    assert_int_equal(symlink("loop", at(f, "loop")), 0);
    assert_null(outfile_create(&test_arena, at(f, "loop"), &f->err));
    assert_int_equal(f->err.code, ERR_USAGE);
}

TEST_WITH(test_refused_destinations, Fixture *f) {
    assert_int_equal(mkdir(at(f, "dir"), 0755), 0);
    put(f, "file", "x");
    const char *paths[] = {at(f, "dir"),  at(f, "dir/"),   at(f, "new/"),
                           at(f, "no/a"), at(f, "file/a"), ""};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        Err err = {0};
        assert_null(outfile_create(&test_arena, paths[i], &err));
        assert_int_equal(err.code, ERR_USAGE);
    }
    assert_int_equal(entries(f), 2);
}

static void *read_fifo(void *path) {
    static char buffer[64];
    FILE *file = fopen(path, "r");
    size_t got = fread(buffer, 1, sizeof buffer - 1, file);
    buffer[got] = '\0';
    fclose(file);
    return buffer;
}

TEST_WITH(test_fifo_is_written_through, Fixture *f) {
    assert_int_equal(mkfifo(at(f, "fifo"), 0600), 0);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_fifo, (void *)at(f, "fifo")), 0);
    save(f, "fifo", "through");
    void *got;
    pthread_join(reader, &got);
    assert_string_equal(got, "through");
    assert_true(S_ISFIFO(mode_of(f, "fifo")));
    assert_int_equal(entries(f), 1);
}

TEST_WITH(test_device_is_written_through, Fixture *f) {
    OutFile *file = outfile_create(&test_arena, "/dev/null", &f->err);
    assert_non_null(file);
    assert_true(file->streaming);
    assert_true(outfile_write(file, "x", 1, &f->err));
    assert_true(outfile_commit(file, &f->err));

    file = outfile_create(&test_arena, "/dev/full", &f->err);
    assert_non_null(file);
    assert_false(outfile_write(file, "x", 1, &f->err));
    assert_int_equal(f->err.code, ERR_ENV);
    assert_non_null(strstr(f->err.what, strerror(ENOSPC)));
}

TEST_WITH(test_gone_reader, Fixture *f) {
    signal(SIGPIPE, SIG_IGN);
    int ends[2], saved = dup(STDOUT_FILENO);
    assert_int_equal(pipe(ends), 0);
    close(ends[0]);
    dup2(ends[1], STDOUT_FILENO);
    OutFile *file = outfile_create(&test_arena, "-", &f->err);
    bool ok = file && outfile_write(file, "x", 1, &f->err);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    close(ends[1]);
    assert_non_null(file);
    assert_false(ok);
    assert_true(outfile_is_gone(&f->err));
    assert_false(outfile_is_gone(&(Err){.code = ERR_ENV, .what = "other"}));
}

TEST_WITH(test_failing_write_keeps_old, Fixture *f) {
    put(f, "a", "old");
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit old, small;
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    char block[10000] = "x";
    OutFile *file = create_ok(f, "a");
    bool ok =
        outfile_write(file, block, sizeof block, &f->err); /* first a short write, then EFBIG */
    setrlimit(RLIMIT_FSIZE, &old);
    assert_false(ok);
    assert_int_equal(f->err.code, ERR_ENV);
    arena_free(&test_arena);
    expect_text(f, "a", "old");
    assert_int_equal(entries(f), 1);
}

TEST_WITH(test_copy_reopen_rename, Fixture *f) {
    put(f, "in", "0123456789");
    Source *in = source_open(&test_arena, at(f, "in"), 100, &f->err);
    assert_non_null(in);
    OutFile *file = create_ok(f, "in"); /* IN = OUT */
    assert_true(outfile_write(file, "<", 1, &f->err));
    assert_true(outfile_copy(file, in, 2, 5, &f->err));
    assert_true(outfile_write(file, ">..", 3, &f->err));
    Source memory = {.name = "m", .size = 3, .memory = (const unsigned char *)"abc", .fd = -1};
    assert_true(outfile_copy(file, &memory, 1, 2, &f->err));
    assert_int_equal(file->size, 11);
    assert_false(outfile_copy(file, in, 8, 3, NULL));
    assert_true(outfile_sync(file, &f->err));
    Source *back = outfile_reopen(file, &test_arena, "back", &f->err);
    char buffer[12] = "";
    assert_true(source_read(back, 0, buffer, 11, &f->err));
    assert_string_equal(buffer, "<23456>..bc");
    outfile_set_name(file, &test_arena, "out");
    assert_true(outfile_commit(file, &f->err));
    expect_text(f, "in", "0123456789");
    expect_text(f, "out", "<23456>..bc");
    assert_int_equal(entries(f), 2);
}

static void on_signal(int number) {
    outfile_end_by(number);
    _exit(128 + number);
}

TEST_WITH(test_signal_removes_temporaries, Fixture *f) {
    put(f, "a", "old");
    pid_t child = fork();
    if (child == 0) {
        signal(SIGTERM, on_signal);
        Err err = {0};
        OutFile *a = outfile_create(&test_arena, at(f, "a"), &err);
        OutFile *b = outfile_create(&test_arena, at(f, "b"), &err);
        if (!a || !b || entries(f) != 3) _exit(1);
        raise(SIGTERM);
        _exit(2);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
    expect_text(f, "a", "old");
    assert_int_equal(entries(f), 1);
}

TEST_WITH(test_many_at_once, Fixture *f) {
    OutFile *files[40];
    for (int i = 0; i < 40; i++) files[i] = create_ok(f, arena_printf(&test_arena, "f%d", i));
    for (int i = 0; i < 40; i++) assert_true(outfile_commit(files[i], &f->err));
    assert_int_equal(entries(f), 40);
}

static bool commit_three(Fixture *f, Err *err) {
    OutFile *files[] = {create_ok(f, "a"), create_ok(f, "sub/b"), create_ok(f, "c")};
    for (int i = 0; i < 3; i++) assert_true(outfile_write(files[i], "new", 3, &f->err));
    if (entries(f) > 5) { /* a test wants the last one to fail */
        assert_int_equal(remove(at(f, "c")), 0);
        assert_int_equal(mkdir(at(f, "c"), 0700), 0);
    }
    return outfile_commit_all(files, 3, err);
}

TEST_WITH(test_all_or_none, Fixture *f) {
    Err err = {0};
    assert_int_equal(mkdir(at(f, "sub"), 0700), 0);
    put(f, "a", "old");
    assert_true(commit_three(f, &f->err)); /* one is replaced, two are new */
    expect_text(f, "a", "new");
    expect_text(f, "sub/b", "new");
    expect_text(f, "c", "new");
    assert_int_equal(entries(f), 3);

    put(f, "a", "old");
    assert_int_equal(remove(at(f, "sub/b")), 0);
    put(f, "d", "more");
    assert_false(commit_three(f, &err)); /* a was swapped, b new, c can't be */
    assert_int_equal(err.code, ERR_ENV);
    assert_non_null(strstr(err.file, "/c"));
    assert_string_equal(err.hint, "");
    expect_text(f, "a", "old");
    assert_int_not_equal(access(at(f, "sub/b"), F_OK), 0);
    assert_int_equal(entries(f), 4);
    assert_int_equal(rmdir(at(f, "sub")), 0); /* nothing is left in there */
}

/* What a file can't be written to the end of keeps all others from appearing. */
TEST_WITH(test_none_after_a_full_stream, Fixture *f) {
    Err err = {0};
    put(f, "a", "old");
    OutFile *files[] = {create_ok(f, "a"), outfile_create(&test_arena, "/dev/full", &f->err)};
    assert_true(outfile_write(files[0], "new", 3, &f->err));
    assert_false(outfile_write(files[1], "new", 3, &err));
    outfile_abort(files[0]);
    expect_text(f, "a", "old");
    assert_int_equal(entries(f), 1);
}

TEST_WITH(test_two_names_of_one_folder, Fixture *f) {
    assert_int_equal(mkdir(at(f, "sub"), 0700), 0);
    assert_int_equal(symlink("sub", at(f, "link")), 0);
    OutFile *files[] = {create_ok(f, "sub/a"), create_ok(f, "link/b"),
                        create_ok(f, "sub/../sub/c")};
    outfile_lock_folders(files, 3); /* one lock, not three that wait for each other */
    assert_true(outfile_commit_all(files, 3, &f->err));
    assert_int_equal(access(at(f, "sub/b"), F_OK), 0);
}

TEST_WITH(test_killed_process_is_cleaned_up, Fixture *f) {
    const char *const others[] = {".demi-0123456789abcdef.tmp", ".demi-0123456789abcde.part",
                                  ".demi-0123456789ABCDEF.part", "x.demi-0123456789abcdef.part",
                                  ".demi-0123456789abcdef.part2"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) put(f, others[i], "mine");
    assert_int_equal(mkdir(at(f, ".demi-0000000000000001.part"), 0700), 0);
    pid_t child = fork();
    if (child == 0) {
        create_ok(f, "a");
        raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(entries(f), 7);
    OutFile *live = create_ok(f, "b"); /* of a process that works */
    assert_int_equal(entries(f), 8);
    save(f, "c", "new");
    assert_int_equal(entries(f), 8); /* c came, the child's went */
    assert_true(outfile_commit(live, &f->err));
    assert_int_equal(access(at(f, "b"), F_OK), 0);
    assert_int_equal(access(at(f, others[0]), F_OK), 0);
}

TEST_WITH(test_write_protection_is_respected, Fixture *f) {
    put(f, "a", "old");
    assert_int_equal(chmod(at(f, "a"), 0444), 0);
    assert_int_equal(chmod(f->folder, 0777), 0);
    bool root = geteuid() == 0; /* who may write everything */
    if (root) assert_int_equal(seteuid(65534), 0);
    OutFile *file = outfile_create(&test_arena, at(f, "a"), &f->err);
    int count = entries(f);
    if (root) assert_int_equal(seteuid(0), 0);
    assert_null(file);
    assert_int_equal(f->err.code, ERR_ENV);
    assert_int_equal(count, 1);
}
