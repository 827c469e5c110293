# SPDX-License-Identifier: Apache-2.0
# Test programs that have the command's own sources in them, to run it in process; after tools.cmake,
# which says what those are.
get_target_property(command_sources demi SOURCES)
list(FILTER command_sources EXCLUDE REGEX "/demi_main\\.c$")
add_library(demi_commands OBJECT ${command_sources} tools/fuzz/hostile_commands.c
    tools/fuzz/fuzz_common.c)
target_include_directories(demi_commands PUBLIC tools/command tools/fuzz)
target_link_libraries(demi_commands PRIVATE demi_flags PUBLIC demi_training demi_search demi_evaluation demi_passes demi_proto
    demi_runtime demi_rewrite demi_shape demi_base m)
demi_use_onednn(demi_commands)

add_executable(hostile_models tools/fuzz/hostile_models.c tools/fuzz/hostile_text.c)
target_link_libraries(hostile_models PRIVATE demi_flags demi_commands)
