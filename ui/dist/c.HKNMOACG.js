import{a,b,c,d,e}from"./c.OSZ4YUHO.js";import"./c.7KAYMKQK.js";import"./c.LRODMJYA.js";export{a as aggregations,d as contextOf,b as functions,c as modifiers,e as promqlComplete};
