# SPDX-License-Identifier: Apache-2.0
# The tests that run the built command or look at the tree, registered with ctest. CMakeLists.txt
# includes this where tests are on. They need the pinned Python packages and the data that
# tools/test fetches: it passes DEMI_PYTHON; a build without it has the C tests alone.
# Labels: `full` tests are left out by tools/test --quick, `quick` ones by tools/test.
if(DEMI_SANITIZE_THREADS)
    return() # for the test `threads` alone
endif()
set(DEMI_PYTHON "" CACHE FILEPATH "Python with the packages of tools/setup/requirements-test.txt")
if(NOT DEMI_PYTHON)
    message(STATUS "No DEMI_PYTHON: tools/test sets it and registers the Python tests")
    return()
endif()
if(NOT EXISTS ${DEMI_PYTHON})
    message(FATAL_ERROR "DEMI_PYTHON=${DEMI_PYTHON} does not exist")
endif()

# demi_python_test(NAME SCRIPT [ARGS arg…] [LABELS label…] [TIMEOUT s] [PROCESSORS n])
function(demi_python_test name script)
    cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS" "ARGS;LABELS" ${ARGN})
    if(ARG_UNPARSED_ARGUMENTS) # words without ARGS before them would be dropped in silence
        message(FATAL_ERROR "test ${name}: what is ${ARG_UNPARSED_ARGUMENTS}?")
    endif()
    add_test(NAME ${name}
        COMMAND ${DEMI_PYTHON} -B ${CMAKE_CURRENT_SOURCE_DIR}/tools/suites/${script} ${ARG_ARGS})
    set_tests_properties(${name} PROPERTIES
        LABELS "python;${ARG_LABELS}"
        ENVIRONMENT "PYTHONWARNINGS=ignore;OMP_NUM_THREADS=1")
    if(ARG_TIMEOUT)
        set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT})
    else()
        set_tests_properties(${name} PROPERTIES TIMEOUT 600)
    endif()
    if(ARG_PROCESSORS)
        set_tests_properties(${name} PROPERTIES PROCESSORS ${ARG_PROCESSORS} RUN_SERIAL ON)
    endif()
endfunction()

set(with_demi ARGS --demi $<TARGET_FILE:demi>)
if(DEMI_SANITIZE)
    # What the sanitizers may find that the unit tests don't.
    if(TARGET demi)
        demi_python_test(bad_input_asan bad_input.py ${with_demi} --number 150
            LABELS full TIMEOUT 1200)
        demi_python_test(run_asan run_test.py ${with_demi})
        demi_python_test(inputs_asan inputs_test.py ${with_demi})
        demi_python_test(judge_asan judge_test.py ${with_demi})
        demi_python_test(names_asan names_test.py ${with_demi} --kinds csi,raw
            LABELS full)
        demi_python_test(fill_model_asan fill_model.py ${with_demi} --seeds 8
            LABELS full TIMEOUT 900)
    endif()
    if(TARGET demi_shared)
        # Python is not a program of ours: the sanitizers' libraries have to be there before it
        # starts.
        set(preload "")
        foreach(library libasan.so libubsan.so)
            execute_process(COMMAND ${CMAKE_C_COMPILER} -print-file-name=${library}
                OUTPUT_VARIABLE file OUTPUT_STRIP_TRAILING_WHITESPACE)
            list(APPEND preload ${file})
        endforeach()
        list(JOIN preload " " preload)
        demi_python_test(plan_suite_asan plan_suite.py ARGS --libdemi $<TARGET_FILE:demi_shared>
            LABELS full TIMEOUT 1800 PROCESSORS 2)
        demi_python_test(python_asan python_test.py ARGS Values Passes Wrong LABELS full)
        set_property(TEST python_asan APPEND PROPERTY ENVIRONMENT "LD_PRELOAD=${preload}"
            "ASAN_OPTIONS=detect_leaks=0" "DEMI_LIBRARY=$<TARGET_FILE:demi_shared>")
        if(TARGET demi_fake_driver)
            demi_python_test(cuda_asan cuda_test.py ${with_demi} --most 1
                --libdemi $<TARGET_FILE:demi_shared> Failures LABELS full)
            set_property(TEST cuda_asan APPEND PROPERTY ENVIRONMENT "LD_PRELOAD=${preload}"
                "ASAN_OPTIONS=detect_leaks=0" "LD_LIBRARY_PATH=${fake_folder}")
        endif()
        set_property(TEST plan_suite_asan APPEND PROPERTY ENVIRONMENT "LD_PRELOAD=${preload}"
            "ASAN_OPTIONS=detect_leaks=0")
    endif()
    return()
endif()

demi_python_test(check_includes check_includes.py ARGS --self-test)
demi_python_test(format format_test.py ARGS --self-test)
if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/proto/onnx.proto)
    demi_python_test(proto_check proto_check.py ARGS --self-test)
endif()
demi_python_test(ops_def ops_def_test.py)
set(archives "")
foreach(part base shape rewrite proto passes runtime kernels solve trials search training)
    list(APPEND archives $<TARGET_FILE:demi_${part}>)
endforeach()
demi_python_test(cycles cycles_test.py ARGS --self-test ${archives})
demi_python_test(unused unused_test.py ARGS --self-test --build ${CMAKE_CURRENT_BINARY_DIR}
    ${archives} $<TARGET_FILE:demi_search>)
demi_python_test(settings ../gen/gen_settings.py ARGS --check)
demi_python_test(python_abi python_abi_test.py ARGS --self-test --cc ${CMAKE_C_COMPILER})
demi_python_test(python_types python_types_test.py)
demi_python_test(operator_names operator_names_test.py ARGS --self-test)
demi_python_test(suite_test suite_test.py)
if(TARGET demi)
    demi_python_test(readme readme_test.py ${with_demi} --build ${CMAKE_CURRENT_BINARY_DIR}
        --cc ${CMAKE_C_COMPILER})
    demi_python_test(run run_test.py ${with_demi})
    demi_python_test(tune tune_test.py ${with_demi} PROCESSORS 2)
    demi_python_test(onednn onednn_test.py ${with_demi} --cc ${CMAKE_C_COMPILER})
    demi_python_test(bench bench_test.py ${with_demi})
    demi_python_test(search search_test.py ${with_demi})
    demi_python_test(search_models search_models.py ${with_demi} LABELS full PROCESSORS 2)
    demi_python_test(bombs bomb_test.py ${with_demi} PROCESSORS 2)
    demi_python_test(names names_test.py ${with_demi})
    demi_python_test(outputs outputs_test.py ${with_demi} --cc ${CMAKE_C_COMPILER})
    demi_python_test(bad_input bad_input.py ${with_demi} TIMEOUT 900)
    demi_python_test(memory memory_test.py ${with_demi} LABELS full)
    demi_python_test(deep_models deep_models.py ${with_demi})
    demi_python_test(fill_model fill_model.py ${with_demi})
    demi_python_test(action action_test.py ${with_demi})
    demi_python_test(against against_test.py ${with_demi} LABELS full PROCESSORS 2)
    demi_python_test(verify verify_test.py ${with_demi})
    demi_python_test(inputs inputs_test.py ${with_demi})
    demi_python_test(judge judge_test.py ${with_demi})
    demi_python_test(advice advice_test.py ${with_demi} LABELS full)
    demi_python_test(against_sample against_test.py ${with_demi} --sample 100 --seeds 1:21
        LABELS quick)
    demi_python_test(legality legality_test.py ${with_demi})
    demi_python_test(reasons reasons_test.py ${with_demi} LABELS full PROCESSORS 2)
    demi_python_test(reasons_sample reasons_test.py ${with_demi} --sample 150 LABELS quick)
    demi_python_test(peer_cases peer_cases_test.py ${with_demi})
    set(with_library)
    if(TARGET demi_shared)
        set(with_library --libdemi $<TARGET_FILE:demi_shared>)
    endif()
    demi_python_test(real_models real_models.py ${with_demi} ${with_library} PROCESSORS 2)
    demi_python_test(random_models random_models.py ${with_demi} --seeds 1:120 TIMEOUT 300)
    demi_python_test(simplify simplify_suite.py ${with_demi} PROCESSORS 2)
    demi_python_test(simplify_inexact simplify_suite.py ${with_demi} --inexact --every 3
        --seeds 200:260 LABELS full PROCESSORS 2)
    demi_python_test(placement_table placement_table.py ${with_demi} LABELS full PROCESSORS 2)
    demi_python_test(placement_sample placement_table.py ${with_demi} --every 20 LABELS quick)
    demi_python_test(gradient gradient_test.py ${with_demi} LABELS quick)
    demi_python_test(train train_test.py ${with_demi} LABELS quick)
    demi_python_test(upgrade_test upgrade_test.py ${with_demi}
        LABELS full TIMEOUT 1200 PROCESSORS 2)
    demi_python_test(upgrade_made upgrade_test.py ${with_demi} --made LABELS quick)
    demi_python_test(undo_suite undo_suite.py ${with_demi} --seeds 1:400
        LABELS full TIMEOUT 1800 PROCESSORS 2)
    demi_python_test(undo_sample undo_suite.py ${with_demi} --every 20 --seeds 1:20
        LABELS quick PROCESSORS 2)
    demi_python_test(backend_suite backend_suite.py ${with_demi}
        LABELS full TIMEOUT 2400 PROCESSORS 2)
    if(TARGET demi_shared)
        demi_python_test(plan_suite plan_suite.py ARGS --libdemi $<TARGET_FILE:demi_shared>
            --runtime $<TARGET_FILE:demi_runtime_only> TIMEOUT 600 PROCESSORS 2)
        foreach(test python python_large python_train python_backend) # the package of this tree, with this library
            demi_python_test(${test} ${test}_test.py)
            set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT
                "DEMI_LIBRARY=$<TARGET_FILE:demi_shared>")
        endforeach()
        if(TARGET demi_fake_driver) # tools/fake_cuda: what runs are the kernels' instructions
            demi_python_test(plan_suite_cuda plan_suite.py PROCESSORS 2
                ARGS --libdemi $<TARGET_FILE:demi_shared> --device cuda)
            set(cuda_tests plan_suite_cuda)
            foreach(to float16 bfloat16)
                demi_python_test(plan_${to}_cuda plan_suite.py PROCESSORS 2
                    ARGS --libdemi $<TARGET_FILE:demi_shared> --device cuda --to ${to} --io low)
                list(APPEND cuda_tests plan_${to}_cuda)
            endforeach()
            demi_python_test(cuda_cases cuda_cases_test.py ARGS --seeds 0:20000 --all-kernels
                --libdemi $<TARGET_FILE:demi_shared> LABELS full PROCESSORS 2 TIMEOUT 1200)
            demi_python_test(cuda_cases_sample cuda_cases_test.py ARGS --seeds 0:1500
                --libdemi $<TARGET_FILE:demi_shared> LABELS quick)
            demi_python_test(cuda cuda_test.py ${with_demi} --full
                --dnn-plans $<TARGET_FILE:dnn_plans> --libdemi $<TARGET_FILE:demi_shared>
                LABELS full TIMEOUT 1200)
            demi_python_test(cuda_sample cuda_test.py ${with_demi} --most 3
                --dnn-plans $<TARGET_FILE:dnn_plans> --libdemi $<TARGET_FILE:demi_shared> LABELS quick)
            demi_python_test(cuda_steps cuda_steps_test.py ${with_demi}
                --libdemi $<TARGET_FILE:demi_shared>)
            demi_python_test(cuda_mutants_check cuda_mutants.py ARGS --check LABELS quick)
            demi_python_test(gpu_check gpu_check_test.py ${with_demi} --runtime
                $<TARGET_FILE:demi_runtime_only> --libdemi $<TARGET_FILE:demi_shared> LABELS full)
            demi_python_test(python_cuda python_cuda_test.py)
            list(APPEND cuda_tests cuda_cases cuda_cases_sample cuda cuda_sample cuda_steps gpu_check
                python_cuda)
            set_property(TEST ${cuda_tests} APPEND PROPERTY ENVIRONMENT
                "LD_LIBRARY_PATH=${fake_folder}")
            set_property(TEST python_cuda APPEND PROPERTY ENVIRONMENT
                "DEMI_LIBRARY=$<TARGET_FILE:demi_shared>")
        endif()
        demi_python_test(check_suite check_suite.py ARGS --libdemi $<TARGET_FILE:demi_shared>
            LABELS full PROCESSORS 2)
        demi_python_test(check_sample check_suite.py ARGS --libdemi $<TARGET_FILE:demi_shared>
            --number 4000 LABELS quick)
        demi_python_test(made_models made_models_test.py ${with_demi} --full
            --libdemi $<TARGET_FILE:demi_shared> LABELS full PROCESSORS 2)
        demi_python_test(made_models_small made_models_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared> LABELS quick)
        demi_python_test(unseen unseen_test.py ${with_demi} --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(faithful faithful_test.py ARGS --libdemi $<TARGET_FILE:demi_shared>
            PROCESSORS 2)
        if(demi_onednn_headers)
            demi_python_test(plan_suite_onednn plan_suite.py LABELS full PROCESSORS 2
                ARGS --libdemi $<TARGET_FILE:demi_shared> --kernels onednn)
        endif()
        foreach(to float16 bfloat16)
            foreach(io keep low)
                demi_python_test(plan_${to}_${io} plan_suite.py PROCESSORS 2
                    ARGS --libdemi $<TARGET_FILE:demi_shared> --to ${to} --io ${io})
            endforeach()
        endforeach()
        demi_python_test(reuse reuse_test.py ARGS --libdemi $<TARGET_FILE:demi_shared>
            TIMEOUT 600 PROCESSORS 2)
        demi_python_test(carry_suite carry_suite.py ARGS --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(plan_suite_faithful plan_suite.py ARGS --libdemi $<TARGET_FILE:demi_shared>
            --numerics faithful TIMEOUT 600 PROCESSORS 2)
        demi_python_test(plan_files plan_file_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(sizes sizes_test.py ARGS --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(random_plans random_plans.py ARGS --libdemi $<TARGET_FILE:demi_shared>
            --seeds 1:400 PROCESSORS 2)
        demi_python_test(fuse fuse_test.py ${with_demi} --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(quantized quantized_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(dynamic dynamic_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(quantize quantize_suite.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared> --seeds 1:60)
        demi_python_test(weights weights_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(optimized optimized_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(contrib contrib_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(contrib_heads contrib_heads_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(contrib_experts contrib_experts_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared>)
        demi_python_test(decoders decoders_test.py ${with_demi}
            --libdemi $<TARGET_FILE:demi_shared>)
    endif()
    demi_python_test(backend_sample backend_suite.py ${with_demi} --sample 100
        LABELS quick PROCESSORS 2)
endif()
