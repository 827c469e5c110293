# SPDX-License-Identifier: Apache-2.0
# cmake -DFROM=FILE -DTO=FILE "-DSOURCES=FILE;…" "-DMAKE=COMMAND;ARGUMENT;…" -P take_ptx.cmake: what
# another build made, FROM, becomes TO where it is newer than all that it is made of; else the command
# makes TO.
foreach(source ${SOURCES})
    if(${source} IS_NEWER_THAN ${FROM}) # or there is no FROM
        execute_process(COMMAND ${MAKE} COMMAND_ERROR_IS_FATAL ANY)
        return()
    endif()
endforeach()
file(COPY_FILE ${FROM} ${TO})
