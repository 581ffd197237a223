import{a,b,c,d}from"./c.ZTJMSY25.js";import"./c.7KAYMKQK.js";import"./c.LRODMJYA.js";export{b as functions,a as keywords,d as sqlComplete,c as types};
