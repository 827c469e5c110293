#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs demi and builds and runs client programs against it in each way that programs link: plain
# compiler flags, pkg-config, find_package, add_subdirectory; static and shared, with a plug-in.
# Then moves the installation and does it again. Also checks that the libraries export what the
# headers declare, and nothing else, and where what was built and installed looks for libraries.
# usage: link_test.sh SOURCE_DIR BUILD_DIR C_COMPILER
set -eu
source=$1 build=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
client=$source/tools/examples/client_example.c
pipeline_client=$source/tools/examples/client_pipeline.c
verify_client=$source/tools/examples/client_verify.c

fail() {
    echo "link_test: $*" >&2
    exit 1
}

run_client() {
    out=$("$2") || fail "$1: the client failed"
    case $out in
    *"36 -> 18 bytes"*) echo "$1: $out" ;;
    *) fail "$1: unexpected output: $out" ;;
    esac
}

# The names a library exports must be those that the headers declare as functions.
check_exports() {
    nm "$@" --defined-only --extern-only | awk 'NF == 3 {print $3}' | sort -u >"$work/have"
    cat "$source/passes/front/demi.h" "$source/runtime/demi_runtime.h" \
        "$source/tools/evaluation/demi_trials.h" "$source/tools/search/demi_search.h" \
        "$source/tools/training/demi_train.h" | tr '\n' ' ' |
        grep -o 'DEMI_API [^;]*' |
        grep -o 'demi_[a-z_]*(' | tr -d '(' | sort -u >"$work/want"
    [ -s "$work/want" ] || fail "no functions found in the headers"
    cmp -s "$work/have" "$work/want" ||
        fail "$1 exports other names than the headers declare: $(diff "$work/have" "$work/want")"
}

# folders FILE: where it looks for libraries before the system does. An empty one is the current folder.
folders() {
    readelf -d "$1" | sed -n 's/.*R\(UN\)\{0,1\}PATH.*\[\(.*\)\]/\2/p'
}
check_built() {
    case :$(folders "$1"):. in
    ::.) ;;
    *::*) fail "$1 looks for libraries in the current folder: '$(folders "$1")'" ;;
    esac
}
check_installed() {
    [ -z "$(folders "$1")" ] || fail "$1 looks for libraries in '$(folders "$1")'"
}

# project NAME PREFIX LINES TARGET [OPTION…]: builds both clients as a CMake project of a user's.
project() {
    name=$1 prefix_path=$2 lines=$3 target=$4
    shift 4
    rm -rf "${work:?}/$name"
    mkdir "$work/$name"
    cp "$client" "$pipeline_client" "$work/$name/"
    cat >"$work/$name/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(client LANGUAGES C)
$lines
add_executable(client client_example.c)
target_link_libraries(client PRIVATE $target)
add_executable(client_pipeline client_pipeline.c)
target_link_libraries(client_pipeline PRIVATE $target)
END
    cmake -G Ninja -S "$work/$name" -B "$work/$name/build" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$prefix_path" "$@" >"$work/$name.log" 2>&1 ||
        { cat "$work/$name.log" >&2; fail "$name: cmake"; }
    cmake --build "$work/$name/build" --target client client_pipeline >"$work/$name.log" 2>&1 ||
        { cat "$work/$name.log" >&2; fail "$name: build"; }
    run_client "$name" "$work/$name/build/client"
}

cpp_client() {
    printf '%s\n' '#include <demi/demi_plugin.h>' '#include <demi/demi_trials.h>' \
        '#include <demi/demi_search.h>' \
        '#include <demi/demi_train.h>' \
        'int main() { return demi_version() ? 0 : 1; }' \
        >"$work/client.cpp"
    # shellcheck disable=SC2086
    c++ -Wall -Wextra -Werror -o "$work/cpp" "$work/client.cpp" $1
    "$work/cpp" || fail "c++: the client failed"
}

# A model through a pipeline with a pass of a plug-in, by the installed header alone.
pipeline_client() {
    printf '%s' "$3" >"$work/model.onnxtxt"
    "$1" "$work/model.onnxtxt" "$work/out.onnxtxt" 'infer-dtypes,bypass-ops' "$2" >"$work/report" ||
        fail "client_pipeline failed"
    grep -q 'bypass-ops: 1 rewrites' "$work/report" || fail "client_pipeline: $(cat "$work/report")"
    grep -q 'y = Abs (x)' "$work/out.onnxtxt" || fail "client_pipeline wrote another model"
}
dropout='<ir_version: 8, opset_import: ["" : 17]>
g (float x) => (float y) { h = Abs (x) y = Dropout (h) }'

# try PREFIX: all clients against what is installed there.
try() {
    prefix=$1
    archive=$(find "$prefix" -name libdemi.a)
    libdir=$(dirname "$archive")
    $cc -std=c11 -Wall -Wextra -Werror -o "$work/plain" "$client" -I"$prefix/include" "$archive" \
        -fopenmp -lm
    run_client "plain" "$work/plain"
    $cc -shared -fPIC -o "$work/plain.so" "$client" -I"$prefix/include" "$archive" \
        -fopenmp -lm ||
        fail "the archive can't go into a shared object"
    flags=$(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --cflags --libs demi)
    # shellcheck disable=SC2086
    $cc -o "$work/pkgconfig" "$client" $flags "-Wl,-rpath,$libdir" # for a shared libdemi
    run_client "pkg-config" "$work/pkgconfig"
    # shellcheck disable=SC2086
    $cc -std=c11 -Wall -Wextra -Werror -o "$work/pipeline" "$pipeline_client" $flags \
        "-Wl,-rpath,$libdir"
    # shellcheck disable=SC2086
    $cc -std=c11 -Wall -Wextra -Werror -o "$work/verify" "$verify_client" $flags \
        "-Wl,-rpath,$libdir"
    "$source/tools/suites/client_verify.sh" "$work/verify" \
        "$source/testdata/models/conv_net.onnx" || fail "client_verify failed"
    # shellcheck disable=SC2046
    $cc -shared -fPIC -o "$work/plugin.so" "$source/tools/examples/plugin_example.c" \
        $(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --cflags demi)
    pipeline_client "$work/pipeline" "$work/plugin.so" "$dropout"
    if printf 'int main() { return 0; }' | c++ -x c++ -o "$work/probe" - 2>/dev/null; then
        cpp_client "$flags -Wl,-rpath,$libdir"
    fi
    project find_package "$prefix" "find_package(demi 0.1 REQUIRED)" demi::demi
    pipeline_client "$work/find_package/build/client_pipeline" "$work/plugin.so" "$dropout"
}

for file in "$build/demi" "$build/libdemi.so"; do
    [ ! -e "$file" ] || check_built "$file"
done
cmake --install "$build" --prefix "$work/first" >"$work/install.log"
for file in bin/demi include/demi/demi.h include/demi/demi_plugin.h include/demi/demi_trials.h \
    include/demi/demi_search.h include/demi/demi_train.h share/man/man1/demi.1 share/man/man1/demi-convert.1 share/man/man5/demi-policy.5 \
    share/man/man7/demi-pipeline.7; do
    [ -s "$work/first/$file" ] || fail "$file is not installed"
done
check_installed "$work/first/bin/demi"
check_exports "$(find "$work/first" -name libdemi.a)"
try "$work/first"
mkdir "$work/elsewhere"
mv "$work/first" "$work/elsewhere/moved"
try "$work/elsewhere/moved"

# The shared library beside it: installed on request, or with DEMI_SHARED.
cmake --install "$build" --prefix "$work/elsewhere/moved" --component shared >"$work/install.log"
shared=$(find "$work/elsewhere/moved" -name libdemi.so)
[ -n "$shared" ] || fail "libdemi.so is not installed"
check_installed "$shared"
check_exports "$shared" -D
soname=$(readelf -d "$shared" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
[ -e "$(dirname "$shared")/$soname" ] || fail "the soname '$soname' is not an installed file"
try "$work/elsewhere/moved"
ldd "$work/pkgconfig" | grep -q "$soname" || fail "pkg-config did not choose the shared library"
project shared "$work/elsewhere/moved" "find_package(demi 0.1 REQUIRED)" demi::shared
ldd "$work/shared/build/client" | grep -q "$soname" || fail "demi::shared is not shared"

# optimized NAME WANTED OPTION…: how a project without a build type, or with its own, compiles demi.
optimized() {
    name=$1 wanted=$2
    shift 2
    rm -rf "$work/optimized"
    mkdir "$work/optimized"
    cat >"$work/optimized/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(client LANGUAGES C)
include(FetchContent)
FetchContent_Declare(demi SOURCE_DIR $source)
FetchContent_MakeAvailable(demi)
END
    cmake -G Ninja -S "$work/optimized" -B "$work/optimized/build" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@" >"$work/optimized.log" 2>&1 ||
        { cat "$work/optimized.log" >&2; fail "optimized, $name: cmake"; }
    for file in gemm_simd_portable.c onnx_import.c onnx.pb-c.c demi_main.c; do
        command=$(grep '"command"' "$work/optimized/build/compile_commands.json" |
            grep "/$file\"") || fail "optimized, $name: $file is not compiled"
        level=$(printf '%s' "$command" | grep -o ' -O[^ ]*' | tail -n 1 | tr -d ' ')
        [ "${level:--O0}" = "$wanted" ] || fail "optimized, $name: $file has ${level:-no -O}"
    done
    echo "optimized, $name: $wanted"
}
optimized "no build type" -O3
optimized "Debug" -O0 -DCMAKE_BUILD_TYPE=Debug
optimized "MinSizeRel" -Os -DCMAKE_BUILD_TYPE=MinSizeRel
optimized "flags" -O1 -DCMAKE_C_FLAGS=-O1

# All of demi is compiled again: as fast as that goes.
project add_subdirectory / "add_subdirectory($source demi EXCLUDE_FROM_ALL)" demi::demi \
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_FLAGS_DEBUG= -DDEMI_CUDA=OFF
pipeline_client "$work/add_subdirectory/build/client_pipeline" "$work/plugin.so" "$dropout"
echo "link_test: all fine"
