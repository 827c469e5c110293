# SPDX-License-Identifier: Apache-2.0
"""Judging a converted model against its source: validity, contract, numbers, metadata, reports."""
