#!/bin/sh
# Claude Code with a memory: what is known about a project at each start, every transcript kept.
#
#     sh examples/claude_code.sh FOLDER FILE
#
# FOLDER is the project, FILE the memory. Take it out again with
#     memdb agent install claude-code --project --uninstall
set -eu

file=$(cd "$(dirname "$2")" && pwd)/$(basename "$2")
cd "$1"
memdb agent install claude-code --project --file "$file"
memdb agent status
# Facts that every session shall begin with, and what was said in earlier sessions.
memdb agent import claude-code --file "$file"
