"""Diagnosis (`rackless why`): evidence of what happened to hosts and to the lab, rules from symptom to cause, timelines."""
