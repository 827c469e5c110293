// SPDX-License-Identifier: Apache-2.0
/* Magic numbers, archives' contents, and how far a model goes on; see foreign_file.h. */
#include "foreign_file.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "wire_read.h"

enum { HEAD = 4096, TAIL = 1 << 16 };

typedef struct Look {
    const Source *source;
    unsigned char head[HEAD];
    size_t size; /* of head */
} Look;

typedef struct Kind {
    const char *what, *hint;
} Kind;

#define EXPORT_TORCH "load it in PyTorch and export: torch.onnx.export(model, inputs, 'model.onnx')"
#define EXPORT_OPTIMUM                                                                             \
    "it contains only weights; 'optimum-cli export onnx --model MODEL DIR' exports a model of "    \
    "the Hub"

static const Kind torch = {"a PyTorch file", EXPORT_TORCH};
static const Kind torch_script = {"a TorchScript file", EXPORT_TORCH};
static const Kind torch_program = {"an exported PyTorch program (.pt2)",
                                   "torch.onnx.export(torch.export.load('FILE'), None, "
                                   "'model.onnx', dynamo=True)"};
static const Kind safetensors = {"a safetensors file", EXPORT_OPTIMUM};
static const Kind keras = {"a Keras archive",
                           "in Python: keras.models.load_model('FILE').export('model.onnx', "
                           "format='onnx')"};
static const Kind frozen = {"a frozen TensorFlow graph",
                            "python -m tf2onnx.convert --graphdef FILE --inputs X:0 --outputs Y:0 "
                            "--output model.onnx"};
static const Kind saved = {"a TensorFlow SavedModel",
                           "python -m tf2onnx.convert --saved-model ITS-FOLDER --output "
                           "model.onnx"};
static const Kind archive = {"a ZIP archive", "unpack it"};
static const Kind arrays = {"a NumPy archive (.npz)", "it contains values, for --data"};
static const Kind page = {"a web page", "the download is a page about the file; use the link to "
                                        "the file itself, and log in if required"};
static const Kind paddle = {"a PaddlePaddle model",
                            "paddle2onnx --model_dir DIR --model_filename FILE --params_filename "
                            "PARAMS --save_file model.onnx"};

/* What begins with these bytes, `at` bytes from the start. */
static const struct Magic {
    size_t at;
    const char *bytes;
    size_t size;
    Kind kind;
} magics[] = {
#define MAGIC(at, bytes, what, hint)                                                               \
    {                                                                                              \
        at, bytes, sizeof bytes - 1, {                                                             \
            what, hint                                                                             \
        }                                                                                          \
    }
    MAGIC(0, "version https://git-lfs.github.com/", "a Git LFS pointer",
          "'git lfs pull' fetches the actual model"),
    MAGIC(0, "GGUF", "a GGUF file",
          "these are weights of llama.cpp, which cannot be converted back; export the original "
          "model"),
    MAGIC(0, "\211HDF\r\n\032\n", "an HDF5 file (Keras .h5)",
          "python -m tf2onnx.convert --keras FILE --output model.onnx, or keras' own "
          "model.export('model.onnx', format='onnx')"),
    MAGIC(4, "TFL3", "a TensorFlow Lite model",
          "python -m tf2onnx.convert --tflite FILE --output model.onnx"),
    MAGIC(4, "ORTM", "ONNX Runtime's own format (.ort)",
          "it cannot be converted back; use the .onnx file that it was made from"),
    MAGIC(0, "ftrt", "a TensorRT engine",
          "it cannot be converted back; use the .onnx file that it was made from"),
    MAGIC(0, "\x80\002\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", "a PyTorch file",
          EXPORT_TORCH),
    MAGIC(0, "\x80\002", "a Python pickle", EXPORT_TORCH),
    MAGIC(0, "\x80\003", "a Python pickle", EXPORT_TORCH),
    MAGIC(0, "\x80\004", "a Python pickle", EXPORT_TORCH),
    MAGIC(0, "\x80\005", "a Python pickle", EXPORT_TORCH),
    MAGIC(0, "\223NUMPY", "a NumPy array (.npy)", "it contains values, for 'demi run --input'"),
    MAGIC(0, "\037\213", "compressed by gzip", "unpack it: gunzip"),
    MAGIC(0,
          "\375"
          "7zXZ",
          "compressed by xz", "unpack it: unxz"),
    MAGIC(0, "(\265/\375", "compressed by zstd", "unpack it: unzstd"),
    MAGIC(0, "BZh", "compressed by bzip2", "unpack it: bunzip2"),
    MAGIC(0, "7z\274\257\047\034", "a 7z archive", "unpack it"),
    MAGIC(257, "ustar", "a tar archive", "unpack it: tar xf"),
    MAGIC(0, "%PDF-", "a PDF document", "download the model itself"),
#undef MAGIC
};

static bool begins(const Look *look, size_t at, const char *bytes, size_t size) {
    return look->size >= at + size && memcmp(look->head + at, bytes, size) == 0;
}

static bool holds(const unsigned char *bytes, size_t size, const char *text) {
    size_t length = strlen(text);
    for (size_t i = 0; i + length <= size; i++)
        if (bytes[i] == (unsigned char)text[0] && memcmp(bytes + i, text, length) == 0) return true;
    return false;
}

/* ---- formats without a magic number ---------------------------------------------------------- */

/* By the names of what is in it: in local headers, and in the directory at the end. */
static const Kind *archive_kind(const Look *look) {
    static const struct {
        const char *name;
        const Kind *kind;
    } names[] = {
        {"constants.pkl", &torch_script},   {"data.pkl", &torch},
        {"archive_format", &torch_program}, {"model.weights.h5", &keras},
        {"saved_model.pb", &saved},         {".npy", &arrays},
    };
    unsigned char tail[TAIL];
    uint64_t size = look->source->size;
    size_t count = size < TAIL ? (size_t)size : TAIL;
    if (!source_read(look->source, size - count, tail, count, NULL)) count = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (holds(look->head, look->size, names[i].name) || holds(tail, count, names[i].name))
            return names[i].kind;
    return &archive;
}

/* Eight bytes of length, and as much JSON. */
static bool is_safetensors(const Look *look) {
    uint64_t length = 0;
    for (size_t i = 8; look->size > 9 && i-- > 0;) length = length << 8 | look->head[i];
    return look->size > 9 && length > 1 && length <= look->source->size - 8 &&
           look->head[8] == '{' && holds(look->head, look->size, "\"");
}

static bool is_page(const Look *look) {
    static const char *const starts[] = {"<!doctype html", "<html", "<head", "<!--"};
    size_t at = begins(look, 0, "\357\273\277", 3) ? 3 : 0;
    while (at < look->size && isspace(look->head[at])) at++;
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        size_t length = strlen(starts[i]), same = 0;
        while (same < length && at + same < look->size &&
               tolower(look->head[at + same]) == starts[i][same])
            same++;
        if (same == length) return true;
    }
    return false;
}

/* A field's key and length at *at, which moves to its bytes; a ModelProto's first field is a
 * number. */
static bool take_bytes(const Look *look, size_t *at, unsigned key, uint64_t *length) {
    if (*at >= look->size || look->head[*at] != key) return false;
    size_t count = wire_get_varint(look->head + *at + 1, look->head + look->size, length);
    *at += 1 + count;
    return count > 0;
}

/* GraphDef: node (1) of name (1) and op (2), both text. */
static bool is_frozen_graph(const Look *look) {
    size_t at = 0;
    uint64_t node, name, op;
    if (!take_bytes(look, &at, 0x0a, &node) || !take_bytes(look, &at, 0x0a, &name)) return false;
    if (name > look->size - at) return false;
    at += (size_t)name;
    return take_bytes(look, &at, 0x12, &op) && op < 64 && at < look->size &&
           isalpha(look->head[at]) && name + op < node;
}

/* ProgramDesc: blocks (1) of idx (1), parent_idx (2), vars (3). */
static bool is_paddle(const Look *look) {
    size_t at = 0;
    uint64_t block;
    return take_bytes(look, &at, 0x0a, &block) && begins(look, at, "\010\000\020", 3);
}

/* SavedModel: schema version (1) is 1, then a meta graph (2), which is all of the file; a
 * ModelProto has the name of its producer there. */
static bool is_saved_model(const Look *look) {
    size_t at = 2;
    uint64_t length;
    return begins(look, 0, "\010\001", 2) && take_bytes(look, &at, 0x12, &length) &&
           length > look->source->size / 2;
}

static const Kind *kind_of(const Look *look) {
    for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
        if (begins(look, magics[i].at, magics[i].bytes, magics[i].size)) return &magics[i].kind;
    if (begins(look, 0, "PK\003\004", 4) || begins(look, 0, "PK\005\006", 4))
        return archive_kind(look);
    if (is_safetensors(look)) return &safetensors;
    if (is_page(look)) return &page;
    if (is_paddle(look)) return &paddle;
    if (is_frozen_graph(look)) return &frozen;
    return is_saved_model(look) ? &saved : NULL;
}

/* ---- cut models ------------------------------------------------------------------------------ */

/* The offset at which the fields of the outermost message end, as far as they say: beyond the
 * file's end where it was cut. 0 where this is not a message of that kind. */
static uint64_t end_of_model(const Source *source) {
    enum { FIELD = 2 * WIRE_VARINT_MAX, MOST_FIELDS = 1 << 16 };
    uint64_t at = 0;
    for (int i = 0; at < source->size && i < MOST_FIELDS; i++) {
        unsigned char field[FIELD];
        uint64_t key, value = 0, left = source->size - at;
        size_t count = left < FIELD ? (size_t)left : FIELD;
        if (!source_read(source, at, field, count, NULL)) return 0;
        size_t first = wire_get_varint(field, field + count, &key);
        size_t second = first ? wire_get_varint(field + first, field + count, &value) : 0;
        if (!first || key >> 3 == 0 || key >> 3 > 100) return 0;
        at += first;
        switch (key & 7) {
        case 0: at += second; break;
        case 1: at += 8; break;
        case 2: at += second + value; break;
        case 5: at += 4; break;
        default: return 0;
        }
        if (value > (uint64_t)1 << 40 || ((key & 7) != 5 && (key & 7) != 1 && !second)) return 0;
    }
    return at;
}

static void size_text(uint64_t bytes, char text[32]) {
    if (bytes < 10000)
        snprintf(text, 32, "%" PRIu64 " bytes", bytes);
    else if (bytes < 999500)
        snprintf(text, 32, "%.3g kB", (double)bytes / 1e3);
    else
        snprintf(text, 32, "%.*f MB", bytes < 99950000, (double)bytes / 1e6);
}

static void replace(Err *err, const char *hint) {
    Err old = *err;
    *err = (Err){.code = ERR_MODEL};
    memcpy(err->file, old.file, sizeof err->file);
    err_hint(err, "%s", hint);
}

static void explain_cut(const Source *source, Err *err) {
    char missing[32], size[32];
    uint64_t end = end_of_model(source);
    if (end <= source->size || source->size < 8) return;
    replace(err, "a download or copy may be incomplete: fetch the file again");
    size_text(end - source->size, missing);
    size_text(source->size, size);
    snprintf(err->what, sizeof err->what, "the file is truncated: %s are missing after its %s",
             missing, size);
}

void foreign_file_explain(const Source *source, Err *err) {
    Look look = {.source = source};
    if (err->code != ERR_MODEL) return;
    if (source->size == 0) {
        replace(err, "was it downloaded or written completely?");
        snprintf(err->what, sizeof err->what, "the file is empty");
        return;
    }
    look.size = source->size < HEAD ? (size_t)source->size : HEAD;
    if (!source_read(source, 0, look.head, look.size, NULL)) return;
    const Kind *kind = kind_of(&look);
    if (!kind) {
        explain_cut(source, err);
        return;
    }
    replace(err, kind->hint);
    snprintf(err->what, sizeof err->what, "this is %s, not an ONNX model", kind->what);
}
