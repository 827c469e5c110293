# SPDX-License-Identifier: Apache-2.0
# Fuzzers: tools/fuzz_X.c, X below, with their kept corpora in testdata/fuzz/X. Every build replays
# the corpora as tests; with DEMI_FUZZ (preset fuzz, clang) there are libFuzzer programs as well:
#
#     build/fuzz/fuzz_import -max_len=65536 NEW_CORPUS testdata/fuzz/import testdata/models
#
# An input that broke something goes into testdata/fuzz/X once the cause is fixed.
foreach(name import text convert pipeline plan)
    set(corpus ${CMAKE_CURRENT_SOURCE_DIR}/testdata/fuzz/${name})
    add_executable(replay_${name} tools/fuzz_${name}.c tools/fuzz_common.c tools/fuzz_replay.c)
    target_include_directories(replay_${name} PRIVATE tools)
    target_link_libraries(replay_${name} PRIVATE demi_flags demi_passes demi_proto demi_rewrite
        demi_runtime demi_kernels demi_shape demi_base)
    add_test(NAME replay_${name} COMMAND replay_${name} ${corpus}
        ${CMAKE_CURRENT_SOURCE_DIR}/testdata/models)
    set_tests_properties(replay_${name} PROPERTIES LABELS fuzz TIMEOUT 300)
    if(DEMI_FUZZ)
        add_executable(fuzz_${name} tools/fuzz_${name}.c tools/fuzz_common.c)
        target_include_directories(fuzz_${name} PRIVATE tools)
        target_link_libraries(fuzz_${name} PRIVATE demi_flags demi_passes demi_proto demi_rewrite
            demi_runtime demi_kernels demi_shape demi_base)
        target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
    endif()
endforeach()
if(DEMI_FUZZ)
    # From the kept corpus on; what is new lands in the build folder, what broke something beside
    # it.
    set(found ${CMAKE_CURRENT_BINARY_DIR}/found_plan)
    file(MAKE_DIRECTORY ${found})
    add_test(NAME fuzz_plan_minute COMMAND fuzz_plan -max_total_time=60 -timeout=10
        -rss_limit_mb=2048 -max_len=65536 -print_final_stats=1 ${found}
        ${CMAKE_CURRENT_SOURCE_DIR}/testdata/fuzz/plan)
    set_tests_properties(fuzz_plan_minute PROPERTIES LABELS "fuzz;full;minute" TIMEOUT 300)
endif()

# Every operator under hostile attributes, shapes and data, 100 cases of each version and of each
# plan of the corpus; in the sanitizer build likewise.
add_executable(hostile_operators tools/hostile_operators.c tools/hostile_values.c
    tools/hostile_mutate.c)
target_include_directories(hostile_operators PRIVATE tools)
target_link_libraries(hostile_operators PRIVATE demi_flags demi_runtime demi_kernels demi_rewrite
    demi_shape demi_base m)
file(GLOB plans CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/testdata/fuzz/plan/*)
add_test(NAME hostile_operators COMMAND hostile_operators 100 "" 1 ${plans})
set_tests_properties(hostile_operators PROPERTIES LABELS fuzz TIMEOUT 300
    ENVIRONMENT "OMP_NUM_THREADS=2;ASAN_OPTIONS=quarantine_size_mb=8")
