# SPDX-License-Identifier: Apache-2.0
# The fake device (tools/fake_cuda): libraries with the names that the driver, cuBLASLt and cuDNN have,
# in a folder that tests put into LD_LIBRARY_PATH, and the kernels' PTX beside their images. Where there
# is no nvcc, there is nothing to run, and its tests are left out with a line that says so.
if(NOT cuda_images)
    message(STATUS "No CUDA kernels: no tests of them on the fake device")
    return()
endif()
set(fake_folder ${CMAKE_CURRENT_BINARY_DIR}/fake_cuda)
add_custom_target(demi_fake_ptx ALL DEPENDS ${cuda_ptx} ${cuda_images})

# They run in other programs' processes: optimized and without sanitizers, whatever those have. Where this
# machine has them, a warp's lanes are computed by instructions of 32 bytes.
include(CheckCSourceRuns)
set(fake_wide -march=x86-64-v3)
set(CMAKE_REQUIRED_FLAGS ${fake_wide})
check_c_source_runs("int main(void) { __builtin_cpu_init(); return !__builtin_cpu_supports(\"avx2\"); }"
    demi_fake_runs_wide)
unset(CMAKE_REQUIRED_FLAGS)
if(NOT demi_fake_runs_wide)
    set(fake_wide "")
endif()
add_library(demi_fake_flags INTERFACE)
target_compile_options(demi_fake_flags INTERFACE -O3 -Wall -Wextra -Wshadow -Wconversion
    -Wstrict-prototypes -Wmissing-prototypes -fno-math-errno -fno-trapping-math ${fake_wide}
    $<$<BOOL:${DEMI_WERROR}>:-Werror>)
target_include_directories(demi_fake_flags INTERFACE tools/fake_cuda kernels/cuda kernels rewrite/shape
    $<TARGET_PROPERTY:demi_base,INTERFACE_INCLUDE_DIRECTORIES>)
target_compile_definitions(demi_fake_flags INTERFACE FAKE_CUDA_FOLDER="${cuda_build}")

# demi_fake(NAME FILE source…): a library FILE
function(demi_fake name file)
    list(TRANSFORM ARGN PREPEND tools/fake_cuda/)
    add_library(${name} SHARED ${ARGN})
    target_link_libraries(${name} PRIVATE demi_fake_flags m Threads::Threads)
    add_dependencies(${name} demi_base) # which makes a header
    set_target_properties(${name} PROPERTIES PREFIX "" SUFFIX "" OUTPUT_NAME ${file}
        LIBRARY_OUTPUT_DIRECTORY ${fake_folder} C_VISIBILITY_PRESET default
        BUILD_RPATH ${fake_folder})
endfunction()
set(fake_emulator ptx_half.c ptx_matrix.c ptx_memory.c ptx_ops.c ptx_read.c ptx_read_ops.c ptx_text.c
    ptx_warp.c)
demi_fake(demi_fake_driver libcuda.so.1 ${fake_emulator} fake_driver.c fake_memory.c fake_state.c
    fake_stream.c)
demi_fake(demi_fake_blas libcublasLt.so.13 fake_blas.c)
demi_fake(demi_fake_dnn libcudnn.so.9 fake_dnn.c fake_dnn_run.c)
target_link_libraries(demi_fake_blas PRIVATE demi_fake_driver)
target_link_libraries(demi_fake_dnn PRIVATE demi_fake_driver)

# The emulator by itself, in this program.
list(TRANSFORM fake_emulator PREPEND tools/fake_cuda/)
add_executable(ptx_test tools/fake_cuda/ptx_test.c ${fake_emulator})
target_link_libraries(ptx_test PRIVATE demi_flags demi_fake_flags m PkgConfig::CMOCKA)
add_dependencies(ptx_test demi_fake_ptx)
add_test(NAME ptx_test COMMAND ptx_test)
set_tests_properties(ptx_test PROPERTIES LABELS unit)

# Asks cuDNN itself for plans, where it is; in no process of the fake ones.
add_executable(dnn_plans tools/fake_cuda/dnn_plans.c)
target_include_directories(dnn_plans PRIVATE tools/fake_cuda)
target_link_libraries(dnn_plans PRIVATE demi_flags demi_runtime)
