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
endif()

# Every operator under hostile attributes, shapes and data, and each plan of the corpus.
add_executable(hostile_operators tools/fuzz/hostile_operators.c tools/fuzz/hostile_values.c
    tools/fuzz/hostile_mutate.c)
target_include_directories(hostile_operators PRIVATE tools/fuzz)
target_link_libraries(hostile_operators PRIVATE demi_flags demi_runtime demi_kernels demi_rewrite
    demi_shape demi_base m)
