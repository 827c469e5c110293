# SPDX-License-Identifier: Apache-2.0
# Building against musl, shared by tools/make_static and tools/make_wheel --musl: Debian's musl-tools, and
# protobuf-c, jansson and zlib built from Debian's pinned sources (requirements-static.txt). Sourced behind
# setup.sh, from the repository's root; sets musl_prefix, where they are installed.

musl_top=$PWD/build/static_parts
musl_prefix=$musl_top/installed
musl_wanted=tools/setup/requirements-static.txt

# Source packages by apt, which the system's own list of places need not name.
musl_fetch() {
    local options package version file sum
    mkdir -p "$musl_top/lists/partial"
    apt-get indextargets --format 'deb-src $(SITE) $(CODENAME) main' 'Identifier: Packages' \
        'Label: Debian' 'Component: main' | sort -u >"$musl_top/sources.list"
    options=(-q -o "Dir::Etc::SourceList=$musl_top/sources.list" -o Dir::Etc::SourceParts=/dev/null
        -o "Dir::State::Lists=$musl_top/lists" -o Acquire::Retries=5 -o APT::Sandbox::User=)
    apt-get "${options[@]}" update
    while read -r package version file sum; do
        (cd "$musl_top" && apt-get "${options[@]}" source --download-only "$package=$version") &&
            echo "$sum  $musl_top/$file" | sha256sum -c --quiet || return 1
        mkdir -p "$musl_top/$package"
        tar -xf "$musl_top/$file" -C "$musl_top/$package" --strip-components 1
    done < <(grep -v '^#' "$musl_wanted")
}

musl_build_parts() {
    export CC=musl-gcc CFLAGS="-O2 -fPIC"
    (cd "$musl_top/zlib" && ./configure --static --prefix="$musl_prefix" && make install) &&
        (cd "$musl_top/protobuf-c" &&
            ./configure --disable-shared --disable-protoc --prefix="$musl_prefix" && make install) &&
        cmake -G Ninja -S "$musl_top/jansson" -B "$musl_top/jansson/build" -DCMAKE_BUILD_TYPE=Release \
            -DCMAKE_INSTALL_PREFIX="$musl_prefix" -DJANSSON_BUILD_DOCS=OFF -DJANSSON_EXAMPLES=OFF \
            -DJANSSON_WITHOUT_TESTS=ON &&
        cmake --build "$musl_top/jansson/build" --target install
}

# Headers of the kernel, which musl's folder has not.
musl_link_headers() {
    local machine
    machine=$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || gcc -print-multiarch)
    mkdir -p "$musl_prefix/include"
    ln -sfn /usr/include/linux "$musl_prefix/include/linux"
    ln -sfn /usr/include/asm-generic "$musl_prefix/include/asm-generic"
    ln -sfn "/usr/include/$machine/asm" "$musl_prefix/include/asm"
}

# setup_musl: all of it, once.
setup_musl() {
    setup_packages musl-tools linux-libc-dev
    local stamp
    stamp=$musl_top/.built-$(setup_stamp "$musl_wanted")
    if [ ! -e "$stamp" ]; then
        say "protobuf-c, jansson and zlib against musl (build/static_parts.log)"
        rm -rf "$musl_top"
        mkdir -p "$musl_top"
        musl_fetch >build/static_parts.log 2>&1 || {
            tail -n 20 build/static_parts.log >&2
            setup_fail "their sources can't be had"
        }
        (musl_build_parts) >>build/static_parts.log 2>&1 || {
            tail -n 40 build/static_parts.log >&2
            exit 1
        }
        musl_link_headers
        touch "$stamp"
    fi
}
