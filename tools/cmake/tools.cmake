# The demi command, the installable library libdemi, what goes into an installation, and the tests of
# both. Included by the top CMakeLists.txt after all folder libraries.

# ---- the command ----------------------------------------------------------------------------------
# A file of tools/command as a C array of that name.
function(demi_embed name file)
    set(made ${CMAKE_CURRENT_BINARY_DIR}/generated/${name}.c)
    add_custom_command(OUTPUT ${made}
        COMMAND ${CMAKE_COMMAND} -DINPUT=${CMAKE_CURRENT_SOURCE_DIR}/tools/command/${file}
                -DOUTPUT=${made} -DNAME=${name}
                -P ${CMAKE_CURRENT_SOURCE_DIR}/tools/cmake/embed.cmake
        DEPENDS tools/command/${file} tools/cmake/embed.cmake VERBATIM COMMENT "Embedding ${file}")
    set(demi_pages ${demi_pages} ${made} PARENT_SCOPE)
endfunction()
demi_embed(page_style page_common.css)
demi_embed(page_common page_common.js)
demi_embed(report_page report_page.html)
demi_embed(report_drawing report_drawing.js)
demi_embed(search_page search_page.html)
file(GLOB demi_command CONFIGURE_DEPENDS tools/command/*.c)
add_executable(demi ${demi_command} ${demi_pages})
target_include_directories(demi PRIVATE tools/command)
demi_simd(demi tools/command/machine_peak_simd.inc)
target_link_libraries(demi PRIVATE demi_flags demi_training demi_search demi_evaluation demi_passes demi_proto demi_runtime
    demi_rewrite demi_shape demi_base m)
demi_use_onednn(demi)
if(DEMI_STATIC)
    target_link_options(demi PRIVATE -static -no-pie) # static_start.c
elseif(CMAKE_SYSTEM_NAME STREQUAL "Linux")
    # GNU ld may leave an empty slot among those of functions that are chosen at the start (target_clones),
    # at which glibc gives up where it binds functions one by one, and passes it over where all at once.
    target_link_options(demi PRIVATE LINKER:-z,now)
endif()

# ---- libdemi --------------------------------------------------------------------------------------
# One archive of one object: all folder libraries and what they need of protobuf-c, linked together,
# every symbol but demi.h's made local. So it clashes with nothing, not even with another protobuf-c.
set(demi_parts demi_training demi_search demi_evaluation demi_solve demi_passes demi_proto demi_onnx_pb demi_rewrite demi_runtime demi_kernels
    demi_shape demi_base)
set(demi_object ${CMAKE_CURRENT_BINARY_DIR}/libdemi.o)
set(demi_archive ${CMAKE_CURRENT_BINARY_DIR}/libdemi.a)
set(demi_part_files "")
foreach(part ${demi_parts})
    list(APPEND demi_part_files $<TARGET_FILE:${part}>)
endforeach()
set(jansson_copy ${CMAKE_CURRENT_BINARY_DIR}/jansson_copy.a)
add_custom_command(OUTPUT ${demi_archive}
    BYPRODUCTS ${demi_object} ${jansson_copy}
    # Distributions build jansson's archive for programs: its reference to stdin, which we never
    # give it, keeps it out of shared objects. See passes/front/no_stdin.c.
    COMMAND ${CMAKE_OBJCOPY} --redefine-sym stdin=demi_no_stdin ${JANSSON_STATIC} ${jansson_copy}
    COMMAND ${CMAKE_C_COMPILER} -r -nostdlib -o ${demi_object}
            -Wl,--whole-archive ${demi_part_files} -Wl,--no-whole-archive ${PROTOBUF_C_STATIC}
            ${jansson_copy} ${ZLIB_LIBRARIES}
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden --wildcard "--keep-global-symbol=demi_*"
            ${demi_object}
    COMMAND ${CMAKE_COMMAND} -E rm -f ${demi_archive}
    COMMAND ${CMAKE_AR} rcs ${demi_archive} ${demi_object}
    DEPENDS ${demi_parts} COMMENT "Linking libdemi.a" VERBATIM)
add_custom_target(libdemi_archive ALL DEPENDS ${demi_archive})

set(demi_headers passes/front/demi.h passes/front/demi_plugin.h rewrite/base/demi_dtype.h
    rewrite/base/demi_error.h runtime/demi_runtime.h tools/evaluation/demi_trials.h
    tools/search/demi_search.h tools/training/demi_train.h)
foreach(header ${demi_headers})
    get_filename_component(name ${header} NAME)
    configure_file(${header} ${CMAKE_CURRENT_BINARY_DIR}/include/demi/${name} COPYONLY)
endforeach()
add_library(libdemi INTERFACE)
add_library(demi::demi ALIAS libdemi)
add_dependencies(libdemi libdemi_archive)
target_include_directories(libdemi INTERFACE ${CMAKE_CURRENT_BINARY_DIR}/include)
target_link_libraries(libdemi INTERFACE ${demi_archive} Threads::Threads m ${CMAKE_DL_LIBS})

# The same object as a shared library, demi::shared. Its soname carries what an incompatible interface
# changes: 0.MINOR before 1.0, MAJOR from then on. Tests want it, too, but do not install it.
option(DEMI_SHARED "Also build and install libdemi as a shared library" OFF)
if(DEMI_SHARED OR (DEMI_TESTS AND NOT DEMI_SANITIZE AND NOT DEMI_SANITIZE_THREADS))
    set_source_files_properties(${demi_object} PROPERTIES GENERATED ON EXTERNAL_OBJECT ON)
    add_library(demi_shared SHARED ${demi_object})
    add_library(demi::shared ALIAS demi_shared)
    add_dependencies(demi_shared libdemi_archive)
    target_include_directories(demi_shared INTERFACE ${CMAKE_CURRENT_BINARY_DIR}/include)
    target_link_libraries(demi_shared PRIVATE Threads::Threads m ${CMAKE_DL_LIBS})
    set_target_properties(demi_shared PROPERTIES OUTPUT_NAME demi LINKER_LANGUAGE C)
    if(NOT SKBUILD) # the package loads its own by path
        set_target_properties(demi_shared PROPERTIES VERSION ${PROJECT_VERSION}
            SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    endif()
    demi_use_onednn(demi_shared)
endif()

# The example of a plug-in, which tests load.
if(DEMI_TESTS)
    add_library(plugin_example MODULE tools/examples/plugin_example.c)
    target_include_directories(plugin_example PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/include)
    target_link_libraries(plugin_example PRIVATE demi_flags)
    set_target_properties(plugin_example PROPERTIES PREFIX "")
endif()

# ---- manual pages and completions -------------------------------------------------------------------
# A page for each command and topic; the test `man` says where one is missing.
set(demi_docs ${CMAKE_CURRENT_BINARY_DIR}/docs)
file(MAKE_DIRECTORY ${demi_docs})
set(demi_pages demi.1 demi-policy.5 demi-pipeline.7)
foreach(command convert simplify opt show check diff compile run bench compare search make-training train help)
    list(APPEND demi_pages demi-${command}.1)
endforeach()
set(demi_page_commands "")
foreach(page ${demi_pages})
    string(REGEX REPLACE "\\.[0-9]$" "" name ${page})
    list(APPEND demi_page_commands COMMAND demi help ${name} --man > ${demi_docs}/${page})
endforeach()
list(TRANSFORM demi_pages PREPEND ${demi_docs}/)
add_custom_command(
    OUTPUT ${demi_pages} ${demi_docs}/demi.bash ${demi_docs}/_demi ${demi_docs}/demi.fish
    ${demi_page_commands}
    COMMAND demi help --completion bash > ${demi_docs}/demi.bash
    COMMAND demi help --completion zsh > ${demi_docs}/_demi
    COMMAND demi help --completion fish > ${demi_docs}/demi.fish
    DEPENDS demi COMMENT "Manual pages and shell completions" VERBATIM)
add_custom_target(demi_docs ALL DEPENDS ${demi_docs}/demi.1)

# ---- installation -----------------------------------------------------------------------------------
option(DEMI_INSTALL "Make install rules" ${PROJECT_IS_TOP_LEVEL})
if(DEMI_INSTALL)
    include(GNUInstallDirs)
    include(CMakePackageConfigHelpers)
    set(demi_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/demi)
    # From the folder of demi.pc to the prefix, so that an installation can be moved.
    file(RELATIVE_PATH DEMI_PC_PREFIX /p/${CMAKE_INSTALL_LIBDIR}/pkgconfig /p)
    set(DEMI_PC_DL "")
    if(CMAKE_DL_LIBS)
        set(DEMI_PC_DL " -l${CMAKE_DL_LIBS}")
    endif()
    set(DEMI_SONAME ${CMAKE_SHARED_LIBRARY_PREFIX}demi${CMAKE_SHARED_LIBRARY_SUFFIX}.${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
    set(DEMI_SHARED_FILE ${CMAKE_SHARED_LIBRARY_PREFIX}demi${CMAKE_SHARED_LIBRARY_SUFFIX}.${PROJECT_VERSION})
    configure_file(tools/cmake/demi.pc.in ${CMAKE_CURRENT_BINARY_DIR}/demi.pc @ONLY)
    configure_package_config_file(tools/cmake/demiConfig.cmake.in
        ${CMAKE_CURRENT_BINARY_DIR}/demiConfig.cmake INSTALL_DESTINATION ${demi_package_dir}
        PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR NO_CHECK_REQUIRED_COMPONENTS_MACRO)
    write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/demiConfigVersion.cmake
        COMPATIBILITY SameMinorVersion)
    install(TARGETS demi)
    demi_forget_folders(${CMAKE_INSTALL_BINDIR}/demi)
    install(FILES ${demi_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/demi)
    install(FILES ${demi_archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/demi.pc
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    install(FILES ${CMAKE_CURRENT_BINARY_DIR}/demiConfig.cmake
        ${CMAKE_CURRENT_BINARY_DIR}/demiConfigVersion.cmake DESTINATION ${demi_package_dir})
    foreach(page ${demi_pages})
        string(REGEX MATCH "[0-9]$" section ${page})
        install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
    endforeach()
    install(FILES ${demi_docs}/demi.bash RENAME demi
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
    install(FILES ${demi_docs}/_demi DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
    install(FILES ${demi_docs}/demi.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
    if(DEMI_SHARED)
        install(TARGETS demi_shared)
        demi_forget_folders(${CMAKE_INSTALL_LIBDIR}/${DEMI_SHARED_FILE})
    elseif(TARGET demi_shared)
        install(TARGETS demi_shared COMPONENT shared EXCLUDE_FROM_ALL)
        demi_forget_folders(${CMAKE_INSTALL_LIBDIR}/${DEMI_SHARED_FILE} COMPONENT shared EXCLUDE_FROM_ALL)
    endif()
endif()

# A wheel of the Python package has this component alone (pyproject.toml).
if(SKBUILD)
    set_target_properties(demi demi_shared PROPERTIES BUILD_WITH_INSTALL_RPATH OFF INSTALL_RPATH "")
    install(TARGETS demi_shared LIBRARY DESTINATION demi_onnx COMPONENT python)
    install(TARGETS demi RUNTIME DESTINATION ${SKBUILD_SCRIPTS_DIR} COMPONENT python)
endif()

# ---- tests --------------------------------------------------------------------------------------------
if(DEMI_TESTS)
    # A program linked with an archive of instrumented objects would need the sanitizers' own libraries.
    if(DEMI_INSTALL AND NOT DEMI_SANITIZE AND NOT DEMI_SANITIZE_THREADS)
        add_test(NAME link COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/suites/link_test.sh
            ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_CURRENT_BINARY_DIR} ${CMAKE_C_COMPILER})
    endif()
endif()
