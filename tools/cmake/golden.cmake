# SPDX-License-Identifier: Apache-2.0
# The golden cases of testdata/golden; `golden_test --update testdata/golden` rewrites expectations.
add_executable(golden_test tools/suites/golden_test.c)
target_link_libraries(golden_test PRIVATE demi_flags demi_passes demi_proto demi_rewrite demi_base)
add_test(NAME golden COMMAND golden_test ${CMAKE_CURRENT_SOURCE_DIR}/testdata/golden)
set_tests_properties(golden PROPERTIES LABELS golden)
