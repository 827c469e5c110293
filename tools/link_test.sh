#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Installs demi, moves the installation, and builds and runs client_example.c against it in each way
# that programs link: plain compiler flags, pkg-config, find_package, add_subdirectory. Also checks that
# the archive exports nothing but demi_ names.
# usage: link_test.sh SOURCE_DIR BUILD_DIR C_COMPILER
set -eu
source=$1 build=$2 cc=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

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

cmake --install "$build" --prefix "$work/first" >"$work/install.log"
mv "$work/first" "$work/moved"
prefix=$work/moved
for file in bin/demi include/demi/demi.h share/man/man1/demi.1; do
    [ -s "$prefix/$file" ] || fail "$file is not installed"
done
archive=$(find "$prefix" -name libdemi.a)
libdir=$(dirname "$archive")

others=$(nm --defined-only --extern-only "$archive" | awk 'NF == 3 {print $3}' | grep -v '^demi_' || true)
[ -z "$others" ] || fail "exported beside demi_*: $others"
for name in $(grep -o 'demi_[a-z_]*(' "$source/passes/demi.h" | tr -d '(' | sort -u); do
    nm --defined-only --extern-only "$archive" | grep -q " T $name\$" || fail "$name is not exported"
done

client=$source/tools/client_example.c
$cc -std=c11 -Wall -Wextra -Werror -o "$work/plain" "$client" -I"$prefix/include" \
    "$archive" -lm
run_client plain "$work/plain"

flags=$(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --cflags --libs demi)
# shellcheck disable=SC2086
$cc -o "$work/pkgconfig" "$client" $flags "-Wl,-rpath,$libdir" # for a shared libdemi
run_client pkg-config "$work/pkgconfig"

if printf 'int main() { return 0; }' | c++ -x c++ -o "$work/probe" - 2>/dev/null; then
    printf '#include <demi/demi.h>\nint main() { return demi_version() ? 0 : 1; }\n' \
        >"$work/client.cpp"
    # shellcheck disable=SC2086
    c++ -Wall -Werror -o "$work/cpp" "$work/client.cpp" $flags "-Wl,-rpath,$libdir"
    "$work/cpp" || fail "c++: the client failed"
fi

project() {
    mkdir "$work/$1"
    cp "$client" "$work/$1/"
    cat >"$work/$1/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(client LANGUAGES C)
$2
add_executable(client client_example.c)
target_link_libraries(client PRIVATE demi::demi)
END
    cmake -G Ninja -S "$work/$1" -B "$work/$1/build" -DCMAKE_C_COMPILER="$cc" \
        -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >"$work/$1.log" 2>&1 ||
        { cat "$work/$1.log" >&2; fail "$1: cmake"; }
    cmake --build "$work/$1/build" --target client >"$work/$1.log" 2>&1 ||
        { cat "$work/$1.log" >&2; fail "$1: build"; }
    run_client "$1" "$work/$1/build/client"
}
project find_package "find_package(demi 0.1 REQUIRED)"
project add_subdirectory "add_subdirectory($source demi EXCLUDE_FROM_ALL)"
echo "link_test: all fine"
