# SPDX-License-Identifier: Apache-2.0
# CUDA kernels: each kernels/cuda/FAMILY.cu becomes an image that is embedded into demi_kernels, and a
# file of PTX beside it, which the fake device reads (tools/fake_cuda). An image is a fatbin, of machine
# code for DEMI_CUDA_ARCHITECTURES and PTX of the last of them; in builds for sanitizers, which check the
# host's code, it is the PTX alone. Nothing of CUDA is linked: the driver and libraries are opened when a
# device is first asked for. Where there is no nvcc of CUDA 13, the host's code is built all the same and
# says so when a device is asked for.
set(DEMI_CUDA AUTO CACHE STRING "Build CUDA kernels: AUTO where nvcc is found, ON, OFF")
set_property(CACHE DEMI_CUDA PROPERTY STRINGS AUTO ON OFF)
set(DEMI_CUDA_ARCHITECTURES 80 90 CACHE STRING "Compute capabilities to build CUDA kernels for")
set(DEMI_CUDA_PTX "" CACHE PATH
    "Folder of another build's PTX (build/release/cuda), which a build for sanitizers takes where it is newer than the kernels")
set(cuda_ptx_alone OFF)
if(DEMI_SANITIZE OR DEMI_SANITIZE_THREADS OR DEMI_FUZZ)
    set(cuda_ptx_alone ON)
endif()

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
                if(cuda_ptx_alone)
                    message(STATUS "CUDA kernels: ${DEMI_NVCC} ${cuda_version}, PTX alone")
                else()
                    message(STATUS "CUDA kernels: ${DEMI_NVCC} ${cuda_version}, for ${DEMI_CUDA_ARCHITECTURES}")
                endif()
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
list(APPEND cuda_headers ${CMAKE_CURRENT_SOURCE_DIR}/rewrite/base/demi_dtype.h
    ${CMAKE_CURRENT_SOURCE_DIR}/kernels/formulas.h ${CMAKE_CURRENT_SOURCE_DIR}/kernels/unary.def)
set(cuda_options -std=c++17 -O3 -I${CMAKE_CURRENT_SOURCE_DIR}/rewrite/base
    -I${CMAKE_CURRENT_SOURCE_DIR}/kernels -I${cuda_folder})
set(cuda_targets "")
foreach(arch ${DEMI_CUDA_ARCHITECTURES})
    list(APPEND cuda_targets -gencode arch=compute_${arch},code=sm_${arch})
    set(cuda_last ${arch})
endforeach()
list(APPEND cuda_targets -gencode arch=compute_${cuda_last},code=compute_${cuda_last})

# The PTX that nvcc makes on the way to a fatbin is kept: made apart it takes a fifth of the time again.
# nvcc's name of it has the architecture only where there are several.
function(demi_cuda_fatbin family source image ptx)
    set(kept ${cuda_build}/${family}.kept)
    list(LENGTH DEMI_CUDA_ARCHITECTURES count)
    set(text ${kept}/${family}.ptx)
    if(count GREATER 1)
        set(text ${kept}/${family}.compute_${cuda_last}.ptx)
    endif()
    add_custom_command(OUTPUT ${image} ${ptx}
        COMMAND ${CMAKE_COMMAND} -E make_directory ${kept}
        COMMAND ${demi_nvcc} -fatbin --compress-mode=size --keep --keep-dir ${kept} ${cuda_targets}
                ${cuda_options} -Xptxas -warn-spills -Xptxas -Werror -o ${image} ${source}
        COMMAND ${CMAKE_COMMAND} -E copy ${text} ${ptx}
        COMMAND ${CMAKE_COMMAND} -E rm -r ${kept}
        DEPENDS ${source} ${cuda_headers} COMMENT "nvcc ${family}.cu" VERBATIM)
endfunction()

function(demi_cuda_ptx family source ptx)
    set(command ${demi_nvcc} -ptx -arch=compute_${cuda_last} ${cuda_options} -o ${ptx} ${source})
    if(DEMI_CUDA_PTX)
        string(REPLACE ";" "$<SEMICOLON>" make "${command}")
        string(REPLACE ";" "$<SEMICOLON>" sources "${source};${cuda_headers}")
        set(command ${CMAKE_COMMAND} -DFROM=${DEMI_CUDA_PTX}/${family}.ptx -DTO=${ptx}
            "-DSOURCES=${sources}" "-DMAKE=${make}"
            -P ${CMAKE_CURRENT_SOURCE_DIR}/tools/cmake/take_ptx.cmake)
    endif()
    add_custom_command(OUTPUT ${ptx} COMMAND ${command}
        DEPENDS ${source} ${cuda_headers} COMMENT "PTX of ${family}.cu" VERBATIM)
endfunction()

# The images by family, NULL for those that were not built.
file(STRINGS ${cuda_folder}/cuda_families.def cuda_families REGEX "^FAMILY")
set(cuda_text "/* Made by tools/cmake/cuda.cmake. */\n#include \"cuda_device.h\"\n")
set(cuda_table "")
set(cuda_images "")
set(cuda_ptx "") # of all images
foreach(line ${cuda_families})
    string(REGEX REPLACE "FAMILY\\((.*)\\)" "\\1" family ${line})
    set(source ${cuda_folder}/${family}.cu)
    if(NOT demi_nvcc OR NOT EXISTS ${source})
        continue()
    endif()
    set(ptx ${cuda_build}/${family}.ptx)
    if(cuda_ptx_alone)
        set(image ${ptx})
        set(end ".byte 0\\n") # the driver takes text up to its end
        demi_cuda_ptx(${family} ${source} ${ptx})
    else()
        set(image ${cuda_build}/${family}.fatbin)
        set(end "")
        demi_cuda_fatbin(${family} ${source} ${image} ${ptx})
    endif()
    list(APPEND cuda_images ${image})
    list(APPEND cuda_ptx ${ptx})
    string(APPEND cuda_text "__asm__(\".section .rodata\\n.balign 64\\ndemi_cuda_${family}:\\n"
        ".incbin \\\"${image}\\\"\\n${end}.previous\\n\");\n"
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
