// Package demo is a backend that plays a script: all states of runs and all
// types of approval, for a first look without any set-up and for tests.
package demo
