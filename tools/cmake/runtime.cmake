# SPDX-License-Identifier: Apache-2.0
# Tests of the runtime that need the compiler of plans, or other programs.
foreach(test threads long_context op_attrs)
    add_executable(${test}_test tools/suites/${test}_test.c)
    target_link_libraries(${test}_test PRIVATE demi_flags demi_passes demi_proto demi_rewrite
        demi_runtime PkgConfig::CMOCKA)
    demi_use_onednn(${test}_test)
    add_test(NAME ${test} COMMAND ${test}_test)
    set_tests_properties(${test} PROPERTIES LABELS unit)
endforeach()

# What convert --verify, compare and diff do, asked of the library by its public headers alone.
add_executable(client_verify tools/examples/client_verify.c)
target_include_directories(client_verify PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/include)
target_link_libraries(client_verify PRIVATE demi_flags demi_evaluation)
demi_use_onednn(client_verify)
add_test(NAME client_verify COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/suites/client_verify.sh
    $<TARGET_FILE:client_verify> ${CMAKE_CURRENT_SOURCE_DIR}/testdata/models/conv_net.onnx)
set_tests_properties(client_verify PROPERTIES LABELS unit)

# The runtime without what reads and rewrites models: a program, and a library for judges/runtime_alone.py.
add_executable(client_runtime tools/examples/client_runtime.c)
target_include_directories(client_runtime PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/include)
target_link_libraries(client_runtime PRIVATE demi_flags demi_runtime)
set(other_archives "")
foreach(part demi_training demi_search demi_evaluation demi_solve demi_passes demi_proto demi_onnx_pb demi_rewrite)
    list(APPEND other_archives $<TARGET_FILE:${part}>)
endforeach()
add_test(NAME runtime_only COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/suites/runtime_only.sh
    $<TARGET_FILE:demi> ${CMAKE_CURRENT_SOURCE_DIR}/testdata/models/conv_net.onnx
    $<TARGET_FILE:client_runtime> $<TARGET_FILE:demi_runtime_only> ${other_archives})
set_tests_properties(runtime_only PROPERTIES LABELS unit)
