# SPDX-License-Identifier: Apache-2.0
# Fuzzers: tools/fuzz/fuzz_X.c, X below, with their kept corpora in testdata/fuzz/X. Every build
# replays the corpora as tests; with DEMI_FUZZ (preset fuzz, clang) there are libFuzzer programs. The
# preset builds the two that tests run; the target `fuzzers` is all of them, and what tools/fuzz/long_fuzz
# runs beside them:
#
#     cmake --preset fuzz && cmake --build build/fuzz --target fuzzers
#     build/fuzz/fuzz_import -max_len=65536 NEW_CORPUS testdata/fuzz/import testdata/models
#
# An input that broke something goes into testdata/fuzz/X once the cause is fixed.
set(fuzz_plan_more tools/fuzz/fuzz_run.c)
set(fuzz_options_more tools/fuzz/fuzz_mutate.c tools/fuzz/fuzz_run.c)
foreach(name import text convert pipeline plan options)
    set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/testdata/fuzz/${name})
    if(name STREQUAL options) # what it does with a model depends on every byte: any model will do
        list(APPEND corpus ${CMAKE_CURRENT_SOURCE_DIR}/testdata/fuzz/convert)
    endif()
    add_executable(replay_${name} tools/fuzz/fuzz_${name}.c tools/fuzz/fuzz_common.c
        tools/fuzz/fuzz_replay.c ${fuzz_${name}_more})
    target_include_directories(replay_${name} PRIVATE tools/fuzz)
    target_link_libraries(replay_${name} PRIVATE demi_flags demi_passes demi_proto demi_rewrite
        demi_runtime demi_kernels demi_shape demi_base)
    add_test(NAME replay_${name} COMMAND replay_${name} ${corpus}
        ${CMAKE_CURRENT_SOURCE_DIR}/testdata/models)
    set_tests_properties(replay_${name} PROPERTIES LABELS fuzz TIMEOUT 300)
    if(DEMI_FUZZ)
        add_executable(fuzz_${name} tools/fuzz/fuzz_${name}.c tools/fuzz/fuzz_common.c
            ${fuzz_${name}_more})
        target_include_directories(fuzz_${name} PRIVATE tools/fuzz)
        target_link_libraries(fuzz_${name} PRIVATE demi_flags demi_passes demi_proto demi_rewrite
            demi_runtime demi_kernels demi_shape demi_base)
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    endif()
endforeach()
if(DEMI_FUZZ)
    add_custom_target(fuzzers DEPENDS replay_options fuzz_import fuzz_text fuzz_convert fuzz_pipeline
        fuzz_plan fuzz_options)
    # From the kept corpora on; what is new lands in the build folder, what broke something beside
    # it. The seed is always the same: whether a commit is right must not depend on luck. Chance has
    # its place in tools/fuzz/long_fuzz.
    foreach(name plan options)
        set(found ${CMAKE_CURRENT_BINARY_DIR}/found_${name})
        set(corpora ${CMAKE_CURRENT_SOURCE_DIR}/testdata/fuzz/${name})
        if(name STREQUAL options)
            list(APPEND corpora ${CMAKE_CURRENT_SOURCE_DIR}/testdata/fuzz/convert
                ${CMAKE_CURRENT_SOURCE_DIR}/testdata/models)
        endif()
        file(MAKE_DIRECTORY ${found})
        add_test(NAME fuzz_${name}_minute COMMAND fuzz_${name} -seed=1 -max_total_time=60 -timeout=20
            -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 ${found} ${corpora})
        set_tests_properties(fuzz_${name}_minute PROPERTIES LABELS "fuzz;full;minute" TIMEOUT 300)
    endforeach()
endif()

# Every operator under hostile attributes, shapes and data, and each plan of the corpus.
add_executable(hostile_operators tools/fuzz/hostile_operators.c tools/fuzz/hostile_values.c
    tools/fuzz/hostile_mutate.c)
target_include_directories(hostile_operators PRIVATE tools/fuzz)
target_link_libraries(hostile_operators PRIVATE demi_flags demi_runtime demi_kernels demi_rewrite
    demi_shape demi_base m)
