# SPDX-License-Identifier: Apache-2.0
# Tests of the runtime that need the compiler of plans, or other programs.
add_executable(threads_test tools/threads_test.c)
target_link_libraries(threads_test PRIVATE demi_flags demi_passes demi_proto demi_rewrite demi_runtime
    PkgConfig::CMOCKA)
add_test(NAME threads COMMAND threads_test)
set_tests_properties(threads PROPERTIES LABELS unit)
