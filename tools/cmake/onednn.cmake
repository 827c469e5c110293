# SPDX-License-Identifier: Apache-2.0
# oneDNN, of which some kernels are made: only its headers are needed here, the library is opened
# when a kernel first asks for it. Gives demi_kernels the headers, and demi_use_onednn(TARGET) a
# program of the build folder the place of the library, as a RUNPATH, which an installation does not
# keep. find_package looks for one of the user's or the system's (dnnl_ROOT, CMAKE_PREFIX_PATH)
# before build/onednn, where tools/quickstart and tools/test put one.
option(DEMI_ONEDNN "Build the kernels that use oneDNN where its headers are found" ON)

set(demi_onednn_folder "")
set(demi_onednn_headers "")
if(DEMI_ONEDNN)
    find_package(dnnl 3.2 CONFIG QUIET)
    set(demi_dnnl_others ${dnnl_CONSIDERED_VERSIONS})
    if(NOT dnnl_FOUND)
        find_package(dnnl 3.2 CONFIG QUIET PATHS ${CMAKE_CURRENT_SOURCE_DIR}/build/onednn
            NO_DEFAULT_PATH)
    endif()
    if(dnnl_FOUND)
        get_target_property(demi_onednn_headers DNNL::dnnl INTERFACE_INCLUDE_DIRECTORIES)
        foreach(name IMPORTED_LOCATION IMPORTED_LOCATION_RELEASE IMPORTED_LOCATION_RELWITHDEBINFO
                IMPORTED_LOCATION_NONE IMPORTED_LOCATION_NOCONFIG)
            get_target_property(place DNNL::dnnl ${name})
            if(place AND NOT demi_onednn_folder)
                get_filename_component(demi_onednn_folder ${place} DIRECTORY)
            endif()
        endforeach()
        message(STATUS "oneDNN ${dnnl_VERSION}: headers in ${demi_onednn_headers}")
    elseif(demi_dnnl_others)
        message(STATUS "oneDNN ${demi_dnnl_others} is too old (3.2 is needed): building without")
    else()
        message(STATUS "No oneDNN: building without the kernels that use it")
    endif()
endif()

file(GLOB demi_onednn_sources CONFIGURE_DEPENDS kernels/cpu/onednn/onednn_*.c)
list(FILTER demi_onednn_sources EXCLUDE REGEX "_test\\.c$")
if(demi_onednn_headers)
    list(FILTER demi_onednn_sources INCLUDE REGEX "onednn_none\\.c$")
else()
    list(FILTER demi_onednn_sources EXCLUDE REGEX "onednn_none\\.c$")
endif()
set_source_files_properties(${demi_onednn_sources} PROPERTIES HEADER_FILE_ONLY ON)

function(demi_use_onednn target)
    if(demi_onednn_folder)
        # A BUILD_RPATH that CMake takes away when it installs ends in a colon until then: whoever runs demi from
        # the build folder would load libraries of the folder that he is in. demi_forget_folders takes this away.
        set_target_properties(${target} PROPERTIES INSTALL_RPATH ${demi_onednn_folder} BUILD_WITH_INSTALL_RPATH ON)
        set_property(TARGET ${target} APPEND PROPERTY LINK_OPTIONS LINKER:--enable-new-dtags)
    endif()
endfunction()

# Behind the installation of a target of the above: the file, below the prefix; more words are install's.
function(demi_forget_folders file)
    install(CODE "file(RPATH_REMOVE FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${file}\")" ${ARGN})
endfunction()

# After demi_folder(kernels): tests whose subject it is. The sanitizers' dlopen does not see a
# RUNPATH.
function(demi_test_onednn)
    foreach(test ${ARGN})
        if(NOT TARGET ${test})
            continue()
        endif()
        demi_use_onednn(${test})
        if(demi_onednn_folder)
            set_tests_properties(${test} PROPERTIES
                ENVIRONMENT "LD_LIBRARY_PATH=${demi_onednn_folder}:$ENV{LD_LIBRARY_PATH}")
        endif()
    endforeach()
endfunction()
