# SPDX-License-Identifier: Apache-2.0
# CUDA kernels: each kernels/cuda/FAMILY.cu becomes a fatbin (machine code for
# DEMI_CUDA_ARCHITECTURES and PTX of the last of them) that is embedded into demi_kernels. Nothing of
# CUDA is linked: the driver and libraries are opened when a device is first asked for. Where there
# is no nvcc of CUDA 13, the host's code is built all the same and says so when a device is asked for.
set(DEMI_CUDA AUTO CACHE STRING "Build CUDA kernels: AUTO where nvcc is found, ON, OFF")
set_property(CACHE DEMI_CUDA PROPERTY STRINGS AUTO ON OFF)
set(DEMI_CUDA_ARCHITECTURES 80 90 CACHE STRING "Compute capabilities to build CUDA kernels for")

set(demi_nvcc "")
if(NOT DEMI_CUDA STREQUAL "OFF")
    find_program(DEMI_NVCC nvcc HINTS ${CMAKE_CURRENT_SOURCE_DIR}/build/nvcc/bin # tools/test's
        PATHS /usr/local/cuda/bin)
    if(DEMI_NVCC)
        execute_process(COMMAND ${DEMI_NVCC} --version OUTPUT_VARIABLE version ERROR_QUIET)
        string(REGEX MATCH "release ([0-9]+)\\.([0-9]+)" found "${version}")
        if(CMAKE_MATCH_1 EQUAL 13)
            set(cuda_version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
            set(cuda_probe ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/nvcc_probe)
            file(WRITE ${cuda_probe}/nothing.cu "__global__ void nothing() {}\n")
            execute_process(COMMAND ${DEMI_NVCC} -ptx nothing.cu -o nothing.ptx RESULT_VARIABLE failed
                WORKING_DIRECTORY ${cuda_probe} OUTPUT_QUIET ERROR_QUIET)
            if(failed)
                message(STATUS "${DEMI_NVCC} compiles nothing (it needs a C++ compiler): building without CUDA kernels")
            else()
                set(demi_nvcc ${DEMI_NVCC})
                message(STATUS "CUDA kernels: ${DEMI_NVCC} ${cuda_version}, for ${DEMI_CUDA_ARCHITECTURES}")
            endif()
        else()
            message(STATUS "${DEMI_NVCC} is not of CUDA 13: building without CUDA kernels")
        endif()
    else()
        message(STATUS "No nvcc: building without CUDA kernels")
    endif()
    if(DEMI_CUDA STREQUAL "ON" AND NOT demi_nvcc)
        message(FATAL_ERROR "DEMI_CUDA=ON needs nvcc of CUDA 13 (DEMI_NVCC=/path/to/nvcc)")
    endif()
endif()

set(cuda_folder ${CMAKE_CURRENT_SOURCE_DIR}/kernels/cuda)
set(cuda_build ${CMAKE_CURRENT_BINARY_DIR}/cuda)
file(MAKE_DIRECTORY ${cuda_build})
file(GLOB cuda_headers CONFIGURE_DEPENDS ${cuda_folder}/*.cuh ${cuda_folder}/*_args.h)
file(GLOB cuda_sources CONFIGURE_DEPENDS ${cuda_folder}/*.cu)
set(cuda_targets "")
foreach(arch ${DEMI_CUDA_ARCHITECTURES})
    list(APPEND cuda_targets -gencode arch=compute_${arch},code=sm_${arch})
    set(cuda_last ${arch})
endforeach()
list(APPEND cuda_targets -gencode arch=compute_${cuda_last},code=compute_${cuda_last})

# The images by family, NULL for those that were not built.
file(STRINGS ${cuda_folder}/cuda_families.def cuda_families REGEX "^FAMILY")
set(cuda_text "/* Made by tools/cmake/cuda.cmake. */\n#include \"cuda_device.h\"\n")
set(cuda_table "")
set(cuda_images "")
foreach(line ${cuda_families})
    string(REGEX REPLACE "FAMILY\\((.*)\\)" "\\1" family ${line})
    set(source ${cuda_folder}/${family}.cu)
    if(NOT demi_nvcc OR NOT EXISTS ${source})
        continue()
    endif()
    set(image ${cuda_build}/${family}.fatbin)
    add_custom_command(OUTPUT ${image}
        COMMAND ${demi_nvcc} -fatbin --compress-mode=size -std=c++17 -O3 ${cuda_targets}
                -I${CMAKE_CURRENT_SOURCE_DIR}/rewrite/base -I${cuda_folder}
                -Xptxas -warn-spills -Xptxas -Werror -o ${image} ${source}
        DEPENDS ${source} ${cuda_headers} COMMENT "nvcc ${family}.cu" VERBATIM)
    list(APPEND cuda_images ${image})
    string(APPEND cuda_text "__asm__(\".section .rodata\\n.balign 64\\ndemi_cuda_${family}:\\n"
        ".incbin \\\"${image}\\\"\\n.previous\\n\");\n"
        "extern const unsigned char demi_cuda_${family}[] __attribute__((visibility(\"hidden\")));\n")
    string(APPEND cuda_table "    [CUDA_${family}] = demi_cuda_${family},\n")
endforeach()
string(APPEND cuda_text "const unsigned char *const cuda_images[CUDA_FAMILY_COUNT] = {\n${cuda_table}    [0] = 0,\n};\n")
if(cuda_table)
    string(REPLACE "    [0] = 0,\n" "" cuda_text "${cuda_text}")
endif()
file(CONFIGURE OUTPUT ${cuda_build}/cuda_images.c CONTENT "${cuda_text}" @ONLY)
target_sources(demi_kernels PRIVATE ${cuda_build}/cuda_images.c)
set_source_files_properties(${cuda_build}/cuda_images.c PROPERTIES OBJECT_DEPENDS "${cuda_images}")
